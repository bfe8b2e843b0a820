-- p1 = "a.b"
-- p2 = "n1"
-- p3 = "a.b"
-- p4 = "n1"
-- p5 = ["x"]
-- p6 = "a.b"
-- p7 = "n2"
-- p8 = "a.b"
-- p9 = "n2"
SELECT start_us, span_id, trace_id, log, log_offset, parent_id, answer_bytes
FROM spans
WHERE {of_project}
    AND (((has(leaf_items, concat({p1:String}, '=', left({p2:String}, 64))) AND leaves[{p3:String}] = {p4:String}) OR (name IN ({p5:Array(String)}))) AND NOT ((has(leaf_items, concat({p6:String}, '=', left({p7:String}, 64))) AND leaves[{p8:String}] = {p9:String}) OR 1))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
