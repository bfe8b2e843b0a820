-- p1 = "[\"application\"]"
-- p2 = "key"
-- p3 = "attributes"
-- p4 = ["application"]
-- p5 = "[\"019d952f-5945-71b1-b8cb-d6d8e675c18d\"]"
-- p6 = "id"
-- p7 = ["019d952f-5945-71b1-b8cb-d6d8e675c18d"]
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (((hasAllTokens(references, {p4:Array(String)}, 'splitByString([\'"\'])') AND hasAll(arrayMap(position -> JSONExtractRaw(references, position, {p3:String}, {p2:String}), range(1, JSONLength(references) + 1)), JSONExtractArrayRaw({p1:String}))) AND (hasAllTokens(references, {p7:Array(String)}, 'splitByString([\'"\'])') AND hasAll(arrayMap(position -> JSONExtractRaw(references, position, {p6:String}), range(1, JSONLength(references) + 1)), JSONExtractArrayRaw({p5:String})))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
