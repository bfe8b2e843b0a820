-- after_start_us = 2
-- after_span_id = "01010101010101010101010101010101"
-- after_trace_id = "02020202020202020202020202020202"
-- newest_us = 2
-- candidates = 10
SELECT start_us, span_id, trace_id, partition_id, version, parent_id, response_bytes, members
FROM spans
WHERE project_id = {project_id:UUID}
    AND start_us >= {after_start_us:Int64}
    AND (start_us, span_id, trace_id) > ({after_start_us:Int64}, toFixedString(unhex({after_span_id:String}), 16), toFixedString(unhex({after_trace_id:String}), 16))
    AND start_us <= {newest_us:Int64}
    AND 1
ORDER BY start_us ASC, span_id ASC, trace_id ASC
LIMIT {candidates:UInt32}
