-- p1 = "ag.metrics.costs.incremental.total."
-- p2 = ["n0.5","s0.5"]
-- p3 = "ag"
-- p4 = "metrics"
-- p5 = "costs"
-- p6 = "incremental"
-- p7 = "total"
-- candidates = 10
WITH
… AS attributes_json
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (((has({p2:Array(String)}, cost_leaf) OR (hasAny(arrayFilter((leaf, path) -> startsWith(path, {p1:String}) AND position(substring(path, 36), '.') = 0, mapValues(leaves), mapKeys(leaves)), {p2:Array(String)}) AND JSONType(attributes_json, {p3:String}, {p4:String}, {p5:String}, {p6:String}, {p7:String}) = 'Array'))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
