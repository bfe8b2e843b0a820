-- p1 = "a.b."
-- p2 = ["sx"]
-- p3 = "a.b.x."
-- p4 = "a.b.x"
-- p5 = "x"
-- p6 = "a"
-- p7 = "b"
-- candidates = 10
WITH
… AS attributes_json
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((((hasAll(arrayFilter((leaf, path) -> startsWith(path, {p1:String}) AND position(substring(path, 5), '.') = 0, mapValues(leaves), mapKeys(leaves)), {p2:Array(String)}) OR (leaves[{p4:String}] != '' OR arrayExists(path -> startsWith(path, {p3:String}), mapKeys(leaves)))) AND multiIf(JSONType(attributes_json, {p6:String}, {p7:String}) = 'Object', JSONExtractRaw(attributes_json, {p6:String}, {p7:String}, {p5:String}) NOT IN ('', 'null'), JSONType(attributes_json, {p6:String}, {p7:String}) = 'Array', hasAll(arrayFilter((leaf, path) -> startsWith(path, {p1:String}) AND position(substring(path, 5), '.') = 0, mapValues(leaves), mapKeys(leaves)), {p2:Array(String)}), 0))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
