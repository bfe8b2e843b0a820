-- p1 = "ag.meta.system"
-- p2 = "(?i-s)\\Aopen(?s:.*)\\z"
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND (((indexHint(mapContains(leaves, {p1:String})) AND (((startsWith(leaves[{p1:String}], 's') OR startsWith(leaves[{p1:String}], 'n')) AND match(substring(leaves[{p1:String}], 2), {p2:String}))))))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
