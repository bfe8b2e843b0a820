-- p1 = "[1,\"x\"]"
-- p2 = "attributes"
-- p3 = "a"
-- p4 = "0"
-- p5 = "attributes"
-- p6 = "a"
-- p7 = "0"
-- p8 = "[1,\"x\"]"
-- p9 = "attributes"
-- p10 = "a"
-- p11 = "0"
SELECT start_us, span_id, trace_id, log, log_offset, parent_id, answer_bytes
FROM spans
WHERE {of_project}
    AND ((has(arrayMap(element -> multiIf(startsWith(element, '"'), concat('s', JSONExtractString(element)), element = 'true', 'b1', element = 'false', 'b0', match(element, '^[-0-9]'), concat('n', element), ''), JSONExtractArrayRaw({p1:String})), arrayMap(raw -> multiIf(startsWith(raw, '"'), concat('s', JSONExtractString(raw)), raw = 'true', 'b1', raw = 'false', 'b0', match(raw, '^[-0-9]'), concat('n', raw), ''), [if(JSONType(resource, {p2:String}, {p3:String}) = 'Array', JSONExtractRaw(resource, {p2:String}, {p3:String}, 1), JSONExtractRaw(resource, {p2:String}, {p3:String}, {p4:String}))])[1]) OR (hasAny(arrayMap(element -> multiIf(startsWith(element, '"'), concat('s', JSONExtractString(element)), element = 'true', 'b1', element = 'false', 'b0', match(element, '^[-0-9]'), concat('n', element), ''), if(JSONType(resource, {p5:String}, {p6:String}) = 'Array', JSONExtractArrayRaw(resource, {p5:String}, {p6:String}, 1), JSONExtractArrayRaw(resource, {p5:String}, {p6:String}, {p7:String}))), arrayMap(element -> multiIf(startsWith(element, '"'), concat('s', JSONExtractString(element)), element = 'true', 'b1', element = 'false', 'b0', match(element, '^[-0-9]'), concat('n', element), ''), JSONExtractArrayRaw({p8:String}))) AND if(JSONType(resource, {p9:String}, {p10:String}) = 'Array', JSONType(resource, {p9:String}, {p10:String}, 1), JSONType(resource, {p9:String}, {p10:String}, {p11:String})) = 'Array')))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
