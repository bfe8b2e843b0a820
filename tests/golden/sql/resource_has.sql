-- p1 = "attributes"
-- p2 = "[\"x\"]"
-- p3 = "x"
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (NOT (multiIf(JSONType(resource, {p1:String}) = 'Object', JSONExtractRaw(resource, {p1:String}, {p3:String}) NOT IN ('', 'null'), JSONType(resource, {p1:String}) = 'Array', hasAll(JSONExtractArrayRaw(resource, {p1:String}), JSONExtractArrayRaw({p2:String})), 0)))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
