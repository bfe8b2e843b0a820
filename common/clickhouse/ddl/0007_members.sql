-- Which of the members that a span may lack it has, one bit each (`OPTIONAL_MEMBERS` in common/clickhouse/span_columns.py): a page reads the
-- columns that somebody on it needs (ADR 0003). Of rows that were there before the engine tells it from the columns.
ALTER TABLE spans{on_cluster} ADD COLUMN IF NOT EXISTS members UInt16 MATERIALIZED
    isNotNull(status_message)
    + 2 * isNotNull(session_id)
    + 4 * isNotNull(user_id)
    + 8 * isNotNull(agent_id)
    + 16 * notEmpty(trace_state)
    + 32 * (flags != 0)
    + 64 * (dropped_attributes_count != 0)
    + 128 * (dropped_events_count != 0)
    + 256 * (dropped_links_count != 0)
    + 512 * notEmpty(events)
    + 1024 * notEmpty(links)
    + 2048 * notEmpty(references)
    + 4096 * notEmpty(hashes)
    + 8192 * notEmpty(resource)
    + 16384 * notEmpty(scope)
    CODEC(ZSTD(1)) AFTER answer_bytes;

-- Parts that are there already get it in the background.
ALTER TABLE spans{on_cluster} MATERIALIZE COLUMN members;
