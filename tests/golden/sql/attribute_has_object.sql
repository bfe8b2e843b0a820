-- p1 = "a.b"
-- p2 = ["x"]
-- p3 = "[1]"
-- p4 = "a"
-- p5 = "b"
-- candidates = 10
WITH
… AS attributes_json
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((if(attributes_by_key != '' AND JSONHas(attributes_by_key, {p1:String}), (JSONType(attributes_by_key, {p1:String}) = 'Array' AND arrayExists(position2 -> (JSONType(attributes_by_key, {p1:String}, position2) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(attributes_by_key, {p1:String}, position2, key) = value, {p2:Array(String)}, JSONExtractArrayRaw({p3:String}))), range(1, JSONLength(attributes_by_key, {p1:String}) + 1))), (JSONType(attributes_json, {p4:String}, {p5:String}) = 'Array' AND arrayExists(position3 -> (JSONType(attributes_json, {p4:String}, {p5:String}, position3) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(attributes_json, {p4:String}, {p5:String}, position3, key) = value, {p2:Array(String)}, JSONExtractArrayRaw({p3:String}))), range(1, JSONLength(attributes_json, {p4:String}, {p5:String}) + 1))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
