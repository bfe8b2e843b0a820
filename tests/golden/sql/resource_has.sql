-- p1 = "attributes"
-- p2 = ["sx"]
-- p3 = "x"
SELECT start_us, span_id, trace_id, partition_id, record_offset, parent_id, answer_bytes, members
FROM spans
WHERE {of_project}
    AND (NOT (multiIf(JSONType(resource, {p1:String}) = 'Object', JSONExtractRaw(resource, {p1:String}, {p3:String}) NOT IN ('', 'null'), JSONType(resource, {p1:String}) = 'Array', hasAll(arrayMap(element -> multiIf(startsWith(element, '"'), concat('s', JSONExtractString(element)), element = 'true', 'b1', element = 'false', 'b0', match(element, '^[-0-9]'), concat('n', element), ''), JSONExtractArrayRaw(resource, {p1:String})), {p2:Array(String)}), 0)))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
