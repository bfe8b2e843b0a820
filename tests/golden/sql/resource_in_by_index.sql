-- p1 = "attributes"
-- p2 = "a"
-- p3 = "0"
-- p4 = "[1,\"x\"]"
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (((has(JSONExtractArrayRaw({p4:String}), arrayMap(step2 -> JSONExtractRaw(resource, {p1:String}, {p2:String}, step2), [if(JSONType(resource, {p1:String}, {p2:String}) = 'Array', 1, indexOf(JSONExtractKeys(resource, {p1:String}, {p2:String}), {p3:String}))])[1]) OR (hasAny(arrayMap(step2 -> JSONExtractArrayRaw(resource, {p1:String}, {p2:String}, step2), [if(JSONType(resource, {p1:String}, {p2:String}) = 'Array', 1, indexOf(JSONExtractKeys(resource, {p1:String}, {p2:String}), {p3:String}))])[1], JSONExtractArrayRaw({p4:String})) AND arrayMap(step2 -> JSONType(resource, {p1:String}, {p2:String}, step2) = 'Array', [if(JSONType(resource, {p1:String}, {p2:String}) = 'Array', 1, indexOf(JSONExtractKeys(resource, {p1:String}, {p2:String}), {p3:String}))])[1]))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
