-- newest_us = 2
-- oldest_us = 1
-- rate_percent = 50
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND start_us < {newest_us:Int64}
    AND start_us >= {oldest_us:Int64}
    AND reinterpretAsUInt32(reverse(substring(trace_id, 1, 4))) % 100 < {rate_percent:UInt8}
    AND 1
ORDER BY start_us DESC, span_id DESC, trace_id DESC
LIMIT {candidates:UInt32}
