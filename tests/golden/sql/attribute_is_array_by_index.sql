-- p1 = "a"
-- p2 = "0"
-- p3 = "b"
-- p4 = "[\"x\"]"
-- p5 = ["y"]
-- p6 = "[1]"
-- p7 = "b"
-- p8 = "[\"x\"]"
-- p9 = ["y"]
-- p10 = "[1]"
SELECT start_us, span_id, trace_id, log, log_offset, parent_id, answer_bytes
FROM spans
WHERE {of_project}
    AND ((if(JSONType(attributes, {p1:String}) = 'Array', (JSONType(attributes, {p1:String}, 1, {p3:String}) = 'Array' AND hasAll(JSONExtractArrayRaw(attributes, {p1:String}, 1, {p3:String}), JSONExtractArrayRaw({p4:String})) AND arrayExists(position4 -> (JSONType(attributes, {p1:String}, 1, {p3:String}, position4) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(attributes, {p1:String}, 1, {p3:String}, position4, key) = value, {p5:Array(String)}, JSONExtractArrayRaw({p6:String}))), range(1, JSONLength(attributes, {p1:String}, 1, {p3:String}) + 1))), (JSONType(attributes, {p1:String}, {p2:String}, {p7:String}) = 'Array' AND hasAll(JSONExtractArrayRaw(attributes, {p1:String}, {p2:String}, {p7:String}), JSONExtractArrayRaw({p8:String})) AND arrayExists(position4 -> (JSONType(attributes, {p1:String}, {p2:String}, {p7:String}, position4) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(attributes, {p1:String}, {p2:String}, {p7:String}, position4, key) = value, {p9:Array(String)}, JSONExtractArrayRaw({p10:String}))), range(1, JSONLength(attributes, {p1:String}, {p2:String}, {p7:String}) + 1))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
