-- p1 = "a.b."
-- p2 = ["sx"]
-- p3 = "a"
-- p4 = "b"
-- p5 = "x"
-- p6 = "a"
-- p7 = "b"
-- p8 = "a.b.x."
-- p9 = "a.b.x"
-- p10 = "a"
-- p11 = "b"
SELECT start_us, span_id, trace_id, log, log_offset, parent_id, answer_bytes
FROM spans
WHERE {of_project}
    AND (((hasAll(arrayFilter((leaf, path) -> startsWith(path, {p1:String}) AND position(substring(path, 5), '.') = 0, mapValues(leaves), mapKeys(leaves)), {p2:Array(String)}) AND JSONType(attributes, {p3:String}, {p4:String}) = 'Array') OR ((leaves[{p9:String}] != '' OR arrayExists(path -> startsWith(path, {p8:String}), mapKeys(leaves))) AND JSONExtractRaw(attributes, {p6:String}, {p7:String}, {p5:String}) NOT IN ('', 'null')) AND JSONType(attributes, {p10:String}, {p11:String}) = 'Object'))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
