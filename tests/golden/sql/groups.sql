-- p1 = "a.b"
-- p2 = "n1"
-- p3 = ["x"]
-- p4 = "n2"
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, response_bytes, members
FROM spans
WHERE {of_project}
    AND (((has(leaf_items, concat({p1:String}, '=', left({p2:String}, 64))) OR (name IN ({p3:Array(String)}))) AND NOT (has(leaf_items, concat({p1:String}, '=', left({p4:String}, 64))) OR 1)))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
