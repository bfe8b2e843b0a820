-- p1 = "0123456789abcdef0123456789abcdef"
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((trace_id = toFixedString(unhex({p1:String}), 16)))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
