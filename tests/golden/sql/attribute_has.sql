-- p1 = "a.b."
-- p2 = ["sx"]
-- p3 = "a.b.x."
-- p4 = "a.b.x"
-- p5 = "x"
-- p6 = "a.b"
-- p7 = "[\"x\"]"
-- p8 = "a"
-- p9 = "b"
-- candidates = 10
WITH
… AS attributes_json
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((((hasAll(arrayFilter((leaf, path) -> startsWith(path, {p1:String}) AND position(substring(path, 5), '.') = 0, mapValues(leaves), mapKeys(leaves)), {p2:Array(String)}) OR (leaves[{p4:String}] != '' OR arrayExists(path -> startsWith(path, {p3:String}), mapKeys(leaves)))) AND if(attributes_by_key != '' AND JSONHas(attributes_by_key, {p6:String}), if(JSONType(attributes_by_key, {p6:String}) = 'Object', JSONExtractRaw(attributes_by_key, {p6:String}, {p5:String}) NOT IN ('', 'null'), (hasAll(JSONExtractArrayRaw(attributes_by_key, {p6:String}), JSONExtractArrayRaw({p7:String})) AND JSONType(attributes_by_key, {p6:String}) = 'Array')), if(JSONType(attributes_json, {p8:String}, {p9:String}) = 'Object', JSONExtractRaw(attributes_json, {p8:String}, {p9:String}, {p5:String}) NOT IN ('', 'null'), (hasAll(JSONExtractArrayRaw(attributes_json, {p8:String}, {p9:String}), JSONExtractArrayRaw({p7:String})) AND JSONType(attributes_json, {p8:String}, {p9:String}) = 'Array'))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
