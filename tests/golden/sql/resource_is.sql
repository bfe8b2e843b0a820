-- p1 = "attributes"
-- p2 = "service"
-- p3 = "name"
-- p4 = ["scheckout"]
SELECT start_us, span_id, trace_id, log, log_offset, parent_id, answer_bytes
FROM spans
WHERE {of_project}
    AND ((multiIf(startsWith(JSONExtractRaw(resource, {p1:String}, {p2:String}, {p3:String}), '"'), concat('s', JSONExtractString(JSONExtractRaw(resource, {p1:String}, {p2:String}, {p3:String}))), JSONExtractRaw(resource, {p1:String}, {p2:String}, {p3:String}) = 'true', 'b1', JSONExtractRaw(resource, {p1:String}, {p2:String}, {p3:String}) = 'false', 'b0', match(JSONExtractRaw(resource, {p1:String}, {p2:String}, {p3:String}), '^[-0-9]'), concat('n', JSONExtractRaw(resource, {p1:String}, {p2:String}, {p3:String})), '') = {p4:Array(String)}[1]))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
