-- The parent of each span beside what it used: a report counts where no span below it reports, or where it says that it is
-- the span's own (ADR 0010). Zeros where there is no parent, and in rows of deletions, which say nothing of spans.
-- What was stored before is the span's own: nothing else was understood.
ALTER TABLE spans ON CLUSTER `main` ADD COLUMN IF NOT EXISTS usage_is_own UInt8 DEFAULT 1 CODEC(ZSTD(1)) AFTER errors;
ALTER TABLE span_versions ON CLUSTER `main` ADD COLUMN IF NOT EXISTS parent_id FixedString(16) CODEC(ZSTD(1)) AFTER start_us;
ALTER TABLE span_versions ON CLUSTER `main` ADD COLUMN IF NOT EXISTS usage_is_own UInt8 DEFAULT 1 CODEC(ZSTD(1)) AFTER errors;

-- In place: the view is there all the time, so no row of a worker that goes on meanwhile is missing.
ALTER TABLE span_versions_of_spans ON CLUSTER `main` MODIFY QUERY
SELECT
    project_id, trace_id, span_id, partition_id, record_offset * 2 AS version, record_ms, start_us, parent_id,
    tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors, usage_is_own
FROM spans;

-- The parents of what was stored before. Of two rows of one version the one that was inserted last stays, so doing it twice is
-- harmless, and a deletion, which is a higher version, stays as well.
INSERT INTO span_versions (
    project_id, trace_id, span_id, partition_id, version, record_ms, start_us, parent_id,
    tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors, usage_is_own
)
SELECT
    project_id, trace_id, span_id, partition_id, record_offset * 2, record_ms, start_us, parent_id,
    tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors, usage_is_own
FROM spans
WHERE parent_id != toFixedString('', 16);
