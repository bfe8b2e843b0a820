-- Which members each version has, beside where it stands (migration 0007 says what the bits mean): the rows of a trace, which are found
-- by their heads, are read with the columns that one of them needs. Of versions that were there before it is not known: all.
ALTER TABLE span_versions ADD COLUMN IF NOT EXISTS members UInt16 DEFAULT 32767 CODEC(ZSTD(1)) AFTER usage_is_own;

-- In place: the view is there all the time, so no row of a worker that goes on meanwhile is missing.
ALTER TABLE span_versions_of_spans MODIFY QUERY
SELECT
    project_id, trace_id, span_id, partition_id, record_offset * 2 AS version, record_ms, start_us, parent_id,
    tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors, usage_is_own, members
FROM spans;
