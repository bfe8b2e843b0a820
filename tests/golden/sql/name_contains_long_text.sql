-- p1 = "É"
-- p2 = "é"
-- p3 = "ééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé"
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND ((position(translateUTF8(lower(name), {p1:String}, {p2:String}), {p3:String}) > 0))
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
