-- p1 = "[\"it's\"]"
-- p2 = "exception.message"
-- p3 = "exception"
-- p4 = "message"
-- p5 = ["it's"]
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (((multiSearchAny(events, {p5:Array(String)}) AND arrayExists(held -> held IN (SELECT arrayJoin(JSONExtractArrayRaw({p1:String}))), arrayMap(position -> if(JSONExtractRaw(events, position, 'attributes', {p2:String}) NOT IN ('', 'null'), JSONExtractRaw(events, position, 'attributes', {p2:String}), JSONExtractRaw(events, position, 'attributes', {p3:String}, {p4:String})), range(1, JSONLength(events) + 1))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
