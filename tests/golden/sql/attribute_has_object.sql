-- p1 = "a"
-- p2 = "b"
-- p3 = ["x"]
-- p4 = "[1]"
-- candidates = 10
WITH
… AS attributes_json
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (((JSONType(attributes_json, {p1:String}, {p2:String}) = 'Array' AND arrayExists(position3 -> (JSONType(attributes_json, {p1:String}, {p2:String}, position3) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(attributes_json, {p1:String}, {p2:String}, position3, key) = value, {p3:Array(String)}, JSONExtractArrayRaw({p4:String}))), range(1, JSONLength(attributes_json, {p1:String}, {p2:String}) + 1)))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
