-- p1 = 1714521600000000
-- p2 = 1714608000000000
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((start_us >= {p1:Int64} AND start_us <= {p2:Int64}))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
