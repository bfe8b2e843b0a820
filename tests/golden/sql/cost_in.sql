-- p1 = "ag.metrics.costs.incremental.total."
-- p2 = ["n0.5","s0.5"]
-- p3 = "ag.metrics.costs.incremental.total"
-- p4 = "[0.5,\"0.5\"]"
-- p5 = "ag"
-- p6 = "metrics"
-- p7 = "costs"
-- p8 = "incremental"
-- p9 = "total"
-- candidates = 10
WITH
… AS attributes_json
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (((has({p2:Array(String)}, cost_leaf) OR (hasAny(arrayFilter((leaf, path) -> startsWith(path, {p1:String}) AND position(substring(path, 36), '.') = 0, mapValues(leaves), mapKeys(leaves)), {p2:Array(String)}) AND if(attributes_by_key != '' AND JSONHas(attributes_by_key, {p3:String}), (hasAny(JSONExtractArrayRaw(attributes_by_key, {p3:String}), JSONExtractArrayRaw({p4:String})) AND JSONType(attributes_by_key, {p3:String}) = 'Array'), (hasAny(JSONExtractArrayRaw(attributes_json, {p5:String}, {p6:String}, {p7:String}, {p8:String}, {p9:String}), JSONExtractArrayRaw({p4:String})) AND JSONType(attributes_json, {p5:String}, {p6:String}, {p7:String}, {p8:String}, {p9:String}) = 'Array'))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
