-- The size of each version, so that a limit in bytes reads only the narrow table (ADR 0020). `response_bytes` is about
-- the uncompressed size of the row's columns. Versions that were stored before count as 1,000 bytes.
ALTER TABLE span_versions{on_cluster}
    ADD COLUMN IF NOT EXISTS response_bytes UInt32 DEFAULT 1000 CODEC(T64, ZSTD(1));

ALTER TABLE span_versions_of_spans{on_cluster} MODIFY QUERY
SELECT
    project_id, trace_id, span_id, partition_id, record_offset * 2 AS version, record_ms, start_us, parent_id,
    tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors,
    usage_is_own, members, response_bytes
FROM spans;
