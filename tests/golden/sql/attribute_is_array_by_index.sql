-- p1 = "a"
-- p2 = "0"
-- p3 = "b"
-- p4 = "[\"x\"]"
-- p5 = ["y"]
-- p6 = "[1]"
-- p7 = ["x"]
-- candidates = 10
WITH
… AS attributes_json
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((hasAllTokens(content, {p7:Array(String)}) AND arrayMap(step1 -> (JSONType(attributes_json, {p1:String}, step1, {p3:String}) = 'Array' AND hasAll(JSONExtractArrayRaw(attributes_json, {p1:String}, step1, {p3:String}), JSONExtractArrayRaw({p4:String})) AND arrayExists(position4 -> (JSONType(attributes_json, {p1:String}, step1, {p3:String}, position4) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(attributes_json, {p1:String}, step1, {p3:String}, position4, key) = value, {p5:Array(String)}, JSONExtractArrayRaw({p6:String}))), range(1, JSONLength(attributes_json, {p1:String}, step1, {p3:String}) + 1))), [if(JSONType(attributes_json, {p1:String}) = 'Array', 1, indexOf(JSONExtractKeys(attributes_json, {p1:String}), {p2:String}))])[1]))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
