-- p1 = "attributes.service.name"
-- p2 = "[\"checkout\",5]"
-- p3 = "attributes"
-- p4 = "service"
-- p5 = "name"
-- p6 = ["\u0000"]
-- p7 = ["checkout"]
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (((service_name IN ({p7:Array(String)}) OR (service_name IN ({p6:Array(String)}) AND if(resource_by_key != '' AND JSONHas(resource_by_key, {p1:String}), (has(JSONExtractArrayRaw({p2:String}), JSONExtractRaw(resource_by_key, {p1:String})) OR (hasAny(JSONExtractArrayRaw(resource_by_key, {p1:String}), JSONExtractArrayRaw({p2:String})) AND JSONType(resource_by_key, {p1:String}) = 'Array')), (has(JSONExtractArrayRaw({p2:String}), JSONExtractRaw(resource, {p3:String}, {p4:String}, {p5:String})) OR (hasAny(JSONExtractArrayRaw(resource, {p3:String}, {p4:String}, {p5:String}), JSONExtractArrayRaw({p2:String})) AND JSONType(resource, {p3:String}, {p4:String}, {p5:String}) = 'Array')))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
