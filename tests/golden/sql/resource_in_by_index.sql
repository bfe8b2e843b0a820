-- p1 = "attributes.a.0"
-- p2 = "[1,\"x\"]"
-- p3 = "attributes"
-- p4 = "a"
-- p5 = "0"
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((if(resource_by_key != '' AND JSONHas(resource_by_key, {p1:String}), (has(JSONExtractArrayRaw({p2:String}), JSONExtractRaw(resource_by_key, {p1:String})) OR (hasAny(JSONExtractArrayRaw(resource_by_key, {p1:String}), JSONExtractArrayRaw({p2:String})) AND JSONType(resource_by_key, {p1:String}) = 'Array')), arrayMap(step2 -> (has(JSONExtractArrayRaw({p2:String}), JSONExtractRaw(resource, {p3:String}, {p4:String}, step2)) OR (hasAny(JSONExtractArrayRaw(resource, {p3:String}, {p4:String}, step2), JSONExtractArrayRaw({p2:String})) AND JSONType(resource, {p3:String}, {p4:String}, step2) = 'Array')), [if(JSONType(resource, {p3:String}, {p4:String}) = 'Array', 1, indexOf(JSONExtractKeys(resource, {p3:String}, {p4:String}), {p5:String}))])[1])))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
