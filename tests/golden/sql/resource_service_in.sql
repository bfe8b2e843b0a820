-- p1 = "attributes"
-- p2 = "service"
-- p3 = "name"
-- p4 = "[\"checkout\",5]"
-- p5 = ["\u0000"]
-- p6 = ["checkout"]
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (((service_name IN ({p6:Array(String)}) OR (service_name IN ({p5:Array(String)}) AND (has(JSONExtractArrayRaw({p4:String}), JSONExtractRaw(resource, {p1:String}, {p2:String}, {p3:String})) OR (hasAny(JSONExtractArrayRaw(resource, {p1:String}, {p2:String}, {p3:String}), JSONExtractArrayRaw({p4:String})) AND JSONType(resource, {p1:String}, {p2:String}, {p3:String}) = 'Array'))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
