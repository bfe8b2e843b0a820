-- p1 = "a.0.b"
-- p2 = "[\"x\"]"
-- p3 = ["y"]
-- p4 = "[1]"
-- p5 = "a"
-- p6 = "0"
-- p7 = "b"
-- p8 = ["x"]
-- candidates = 10
WITH
… AS attributes_json,
… AS content
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((hasAllTokens(content, {p8:Array(String)}) AND if(attributes_by_key != '' AND JSONHas(attributes_by_key, {p1:String}), (JSONType(attributes_by_key, {p1:String}) = 'Array' AND hasAll(JSONExtractArrayRaw(attributes_by_key, {p1:String}), JSONExtractArrayRaw({p2:String})) AND arrayExists(position2 -> (JSONType(attributes_by_key, {p1:String}, position2) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(attributes_by_key, {p1:String}, position2, key) = value, {p3:Array(String)}, JSONExtractArrayRaw({p4:String}))), range(1, JSONLength(attributes_by_key, {p1:String}) + 1))), arrayMap(step1 -> (JSONType(attributes_json, {p5:String}, step1, {p7:String}) = 'Array' AND hasAll(JSONExtractArrayRaw(attributes_json, {p5:String}, step1, {p7:String}), JSONExtractArrayRaw({p2:String})) AND arrayExists(position4 -> (JSONType(attributes_json, {p5:String}, step1, {p7:String}, position4) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(attributes_json, {p5:String}, step1, {p7:String}, position4, key) = value, {p3:Array(String)}, JSONExtractArrayRaw({p4:String}))), range(1, JSONLength(attributes_json, {p5:String}, step1, {p7:String}) + 1))), [if(JSONType(attributes_json, {p5:String}) = 'Array', 1, indexOf(JSONExtractKeys(attributes_json, {p5:String}), {p6:String}))])[1])))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
