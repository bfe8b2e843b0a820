-- p1 = "[\"019d952f-5945-71b1-b8cb-d6d8e675c18d\"]"
-- p2 = "id"
-- p3 = ["019d952f-5945-71b1-b8cb-d6d8e675c18d"]
-- p4 = "[\"a\"]"
-- p5 = "[\"1\"]"
-- p6 = "slug"
-- p7 = "version"
-- p8 = ["1","a"]
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((((hasAllTokens(references, {p3:Array(String)}, 'splitByString([\'"\'])') AND arrayExists(held -> held IN (SELECT arrayJoin(JSONExtractArrayRaw({p1:String}))), arrayMap(position -> JSONExtractRaw(references, position, {p2:String}), range(1, JSONLength(references) + 1)))) OR (hasAllTokens(references, {p8:Array(String)}, 'splitByString([\'"\'])') AND arrayExists(held -> held IN (SELECT arrayJoin(arrayZip(JSONExtractArrayRaw({p4:String}), JSONExtractArrayRaw({p5:String})))), arrayMap(position -> tuple(JSONExtractRaw(references, position, {p6:String}), JSONExtractRaw(references, position, {p7:String})), range(1, JSONLength(references) + 1)))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
