-- p1 = "a.b"
-- p2 = "s{x:String}"
-- candidates = 10
WITH
… AS leaf_pairs
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (has(leaf_pairs, concat({p1:String}, '=', {p2:String})))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
