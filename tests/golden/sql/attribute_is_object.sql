-- p1 = "a.b"
-- p2 = ["x"]
-- p3 = "[1]"
-- p4 = ["w"]
-- p5 = "y"
-- p6 = "z"
-- p7 = "[true,null]"
-- p8 = "a"
-- p9 = "b"
-- p10 = "a.b.x"
-- p11 = "n1"
-- p12 = "a.b.x\u0000"
-- candidates = 10
WITH
… AS attributes_json,
… AS leaf_pairs
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((hasAny(leaf_pairs, [concat({p10:String}, '=', {p11:String}), concat({p12:String}, '=', {p11:String})]) AND if(attributes_by_key != '' AND JSONHas(attributes_by_key, {p1:String}), (JSONType(attributes_by_key, {p1:String}) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(attributes_by_key, {p1:String}, key) = value, {p2:Array(String)}, JSONExtractArrayRaw({p3:String})) AND arrayAll(key -> JSONExtractRaw(attributes_by_key, {p1:String}, key) IN ('', 'null'), {p4:Array(String)}) AND (JSONType(attributes_by_key, {p1:String}, {p5:String}) = 'Object' AND (JSONType(attributes_by_key, {p1:String}, {p5:String}, {p6:String}) = 'Array' AND hasAll(JSONExtractArrayRaw(attributes_by_key, {p1:String}, {p5:String}, {p6:String}), JSONExtractArrayRaw({p7:String}))))), (JSONType(attributes_json, {p8:String}, {p9:String}) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(attributes_json, {p8:String}, {p9:String}, key) = value, {p2:Array(String)}, JSONExtractArrayRaw({p3:String})) AND arrayAll(key -> JSONExtractRaw(attributes_json, {p8:String}, {p9:String}, key) IN ('', 'null'), {p4:Array(String)}) AND (JSONType(attributes_json, {p8:String}, {p9:String}, {p5:String}) = 'Object' AND (JSONType(attributes_json, {p8:String}, {p9:String}, {p5:String}, {p6:String}) = 'Array' AND hasAll(JSONExtractArrayRaw(attributes_json, {p8:String}, {p9:String}, {p5:String}, {p6:String}), JSONExtractArrayRaw({p7:String}))))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
