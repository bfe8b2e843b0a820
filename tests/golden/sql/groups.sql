-- p1 = "a.b"
-- p2 = "n1"
-- p3 = ["x"]
-- p4 = "n2"
-- candidates = 10
WITH
… AS leaf_pairs
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (((has(leaf_pairs, concat({p1:String}, '=', {p2:String})) OR (name IN ({p3:Array(String)}))) AND NOT (has(leaf_pairs, concat({p1:String}, '=', {p4:String})) OR 1)))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
