-- p1 = ["sx","n1"]
-- p2 = "a.b"
-- p3 = "a.b."
-- p4 = ["sx","n1"]
-- p5 = "a"
-- p6 = "b"
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, answer_bytes, members
FROM spans
WHERE {of_project}
    AND (((has({p1:Array(String)}, leaves[{p2:String}]) OR (hasAny(arrayFilter((leaf, path) -> startsWith(path, {p3:String}) AND position(substring(path, 5), '.') = 0, mapValues(leaves), mapKeys(leaves)), {p4:Array(String)}) AND JSONType(attributes, {p5:String}, {p6:String}) = 'Array'))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
