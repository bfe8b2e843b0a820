-- p1 = "attributes"
-- p2 = ["sx"]
-- p3 = "attributes"
-- p4 = "x"
-- p5 = "attributes"
-- p6 = "attributes"
SELECT start_us, span_id, trace_id, log, log_offset, parent_id, answer_bytes
FROM spans
WHERE {of_project}
    AND (NOT (((hasAll(arrayMap(element -> multiIf(startsWith(element, '"'), concat('s', JSONExtractString(element)), element = 'true', 'b1', element = 'false', 'b0', match(element, '^[-0-9]'), concat('n', element), ''), JSONExtractArrayRaw(resource, {p1:String})), {p2:Array(String)}) AND JSONType(resource, {p3:String}) = 'Array') OR JSONExtractRaw(resource, {p5:String}, {p4:String}) NOT IN ('', 'null') AND JSONType(resource, {p6:String}) = 'Object')))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
