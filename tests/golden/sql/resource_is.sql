-- p1 = "attributes"
-- p2 = "service"
-- p3 = "name"
-- p4 = ["scheckout"]
SELECT start_us, span_id, trace_id, log, log_offset, parent_id, answer_bytes, members
FROM spans
WHERE {of_project}
    AND ((arrayMap(raw -> multiIf(startsWith(raw, '"'), concat('s', JSONExtractString(raw)), raw = 'true', 'b1', raw = 'false', 'b0', match(raw, '^[-0-9]'), concat('n', raw), ''), [JSONExtractRaw(resource, {p1:String}, {p2:String}, {p3:String})])[1] = {p4:Array(String)}[1]))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
