-- p1 = "[\"019d952f-5945-71b1-b8cb-d6d8e675c18d\"]"
-- p2 = "id"
-- p3 = ["019d952f-5945-71b1-b8cb-d6d8e675c18d"]
-- p4 = "attributes"
-- p5 = ["key"]
-- p6 = "[\"application\"]"
SELECT start_us, span_id, trace_id, log, log_offset, parent_id, answer_bytes
FROM spans
WHERE {of_project}
    AND (((multiSearchAny(references, {p3:Array(String)}) AND hasAll(arrayMap(position -> JSONExtractRaw(references, position, {p2:String}), range(1, JSONLength(references) + 1)), JSONExtractArrayRaw({p1:String}))) AND (arrayExists(position -> (JSONType(references, position, {p4:String}) = 'Object' AND arrayAll((key, value) -> JSONExtractRaw(references, position, {p4:String}, key) = value, {p5:Array(String)}, JSONExtractArrayRaw({p6:String}))), range(1, JSONLength(references) + 1)))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
