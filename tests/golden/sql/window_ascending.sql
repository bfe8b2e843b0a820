-- newest_us = 2
-- oldest_us = 1
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND start_us <= {newest_us:Int64}
    AND start_us > {oldest_us:Int64}
    AND 1
ORDER BY start_us ASC, span_id ASC, trace_id ASC
LIMIT {candidates:UInt32}
