-- p1 = ["checkout","card","declined"]
-- p2 = ["retry"]
-- p3 = [" card declined "]
-- candidates = 10
WITH
… AS content
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((hasAllTokens(content, {p1:Array(String)}) AND NOT hasAnyTokens(content, {p2:Array(String)}) AND arrayAll(phrase -> position(arrayStringConcat(arrayMap(text -> concat(' ', arrayStringConcat(tokens(text), ' '), ' '), content)), phrase) > 0, {p3:Array(String)})))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
