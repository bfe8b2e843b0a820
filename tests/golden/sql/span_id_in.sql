-- p1 = ["00000000000000ab00000000000000ab","00000000000000cd00000000000000cd"]
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((span_id IN (SELECT toFixedString(unhex(arrayJoin({p1:Array(String)})), 16))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
