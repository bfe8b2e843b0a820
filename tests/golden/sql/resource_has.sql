-- p1 = "x"
-- p2 = "attributes"
-- p3 = "[\"x\"]"
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (NOT (if(JSONType(resource, {p2:String}) = 'Object', JSONExtractRaw(resource, {p2:String}, {p1:String}) NOT IN ('', 'null'), (hasAll(JSONExtractArrayRaw(resource, {p2:String}), JSONExtractArrayRaw({p3:String})) AND JSONType(resource, {p2:String}) = 'Array'))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
