-- p1 = "(?i-s)\\A2024\\-05\\-01T12"
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (match((formatDateTime(fromUnixTimestamp64Micro(start_us, 'UTC'), '%Y-%m-%dT%H:%i:%S') || if(start_us % 1000000 = 0, '', '.' || leftPad(toString(start_us % 1000000), 6, '0')) || 'Z'), {p1:String}))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
