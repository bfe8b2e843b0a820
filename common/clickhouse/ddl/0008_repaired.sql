-- The member `repaired` of spans that could not be stored as they were sent (contract §4), as JSON text, '' where it is
-- absent. It is the highest bit of `members`, which is 0 in all rows that were stored before; older releases ignore it.
ALTER TABLE spans{on_cluster} ADD COLUMN IF NOT EXISTS repaired LowCardinality(String);

ALTER TABLE spans{on_cluster} MODIFY COLUMN members UInt16 MATERIALIZED
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
    + 32768 * notEmpty(repaired)
    CODEC(ZSTD(1));
