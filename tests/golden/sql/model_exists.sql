-- p1 = "ag.meta.request.model."
-- p2 = "ag.meta.request.model"
-- p3 = "ag.meta.response.model"
-- p4 = "ag.meta.response.model."
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (((leaves[{p3:String}] != '' AND (leaves[{p3:String}] != '' OR arrayExists(path -> startsWith(path, {p4:String}), mapKeys(leaves))) OR leaves[{p3:String}] = '' AND (leaves[{p2:String}] != '' OR arrayExists(path -> startsWith(path, {p1:String}), mapKeys(leaves))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
