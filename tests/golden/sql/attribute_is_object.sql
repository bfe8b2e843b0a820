-- p1 = "a"
-- p2 = "b"
-- p3 = ["x"]
-- p4 = "[1]"
-- p5 = ["w"]
-- p6 = "y"
-- p7 = "z"
-- p8 = "[true,null]"
-- p9 = "a.b.x"
-- p10 = "n1"
-- candidates = 10
WITH
… AS attributes_json,
… AS leaf_pairs
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((has(leaf_pairs, concat({p9:String}, '=', {p10:String})) AND (JSONType(attributes_json, {p1:String}, {p2:String}) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(attributes_json, {p1:String}, {p2:String}, key) = value, {p3:Array(String)}, JSONExtractArrayRaw({p4:String})) AND arrayAll(key -> JSONExtractRaw(attributes_json, {p1:String}, {p2:String}, key) IN ('', 'null'), {p5:Array(String)}) AND (JSONType(attributes_json, {p1:String}, {p2:String}, {p6:String}) = 'Object' AND (JSONType(attributes_json, {p1:String}, {p2:String}, {p6:String}, {p7:String}) = 'Array' AND hasAll(JSONExtractArrayRaw(attributes_json, {p1:String}, {p2:String}, {p6:String}, {p7:String}), JSONExtractArrayRaw({p8:String})))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
