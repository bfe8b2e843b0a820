-- p1 = "a.b."
-- p2 = ["sx","n1"]
-- p3 = "a.b"
-- p4 = "[\"x\",1]"
-- p5 = "a"
-- p6 = "b"
-- candidates = 10
WITH
… AS attributes_json
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (((has({p2:Array(String)}, leaves[{p3:String}]) OR (hasAny(arrayFilter((leaf, path) -> startsWith(path, {p1:String}) AND position(substring(path, 5), '.') = 0, mapValues(leaves), mapKeys(leaves)), {p2:Array(String)}) AND if(attributes_by_key != '' AND JSONHas(attributes_by_key, {p3:String}), (hasAny(JSONExtractArrayRaw(attributes_by_key, {p3:String}), JSONExtractArrayRaw({p4:String})) AND JSONType(attributes_by_key, {p3:String}) = 'Array'), (hasAny(JSONExtractArrayRaw(attributes_json, {p5:String}, {p6:String}), JSONExtractArrayRaw({p4:String})) AND JSONType(attributes_json, {p5:String}, {p6:String}) = 'Array'))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
