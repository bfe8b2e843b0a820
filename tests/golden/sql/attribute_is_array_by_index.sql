-- p1 = ["x"]
-- p2 = "a"
-- p3 = "0"
-- p4 = "b"
-- p5 = "[\"x\"]"
-- p6 = ["y"]
-- p7 = "[1]"
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, answer_bytes, members
FROM spans
WHERE {of_project}
    AND ((hasAllTokens(content, {p1:Array(String)}) AND arrayMap(step1 -> (JSONType(attributes, {p2:String}, step1, {p4:String}) = 'Array' AND hasAll(JSONExtractArrayRaw(attributes, {p2:String}, step1, {p4:String}), JSONExtractArrayRaw({p5:String})) AND arrayExists(position4 -> (JSONType(attributes, {p2:String}, step1, {p4:String}, position4) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(attributes, {p2:String}, step1, {p4:String}, position4, key) = value, {p6:Array(String)}, JSONExtractArrayRaw({p7:String}))), range(1, JSONLength(attributes, {p2:String}, step1, {p4:String}) + 1))), [if(JSONType(attributes, {p2:String}) = 'Array', 1, indexOf(JSONExtractKeys(attributes, {p2:String}), {p3:String}))])[1]))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
