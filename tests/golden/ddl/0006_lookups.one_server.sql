-- What is asked for by its value: of 4,096 rows each a filter that knows which values are not among them (ADR 0003). Without, a rare
-- value is looked for in every row. The last is of the paths of leaves: a comparison, which no index of values answers, is made only
-- where its path occurs. Rows that were there before are found as well.
ALTER TABLE spans
    ADD INDEX IF NOT EXISTS trace_id_index trace_id TYPE bloom_filter(0.01) GRANULARITY 8,
    ADD INDEX IF NOT EXISTS span_id_index span_id TYPE bloom_filter(0.01) GRANULARITY 8,
    ADD INDEX IF NOT EXISTS parent_id_index parent_id TYPE bloom_filter(0.01) GRANULARITY 8,
    ADD INDEX IF NOT EXISTS name_index name TYPE bloom_filter(0.01) GRANULARITY 8,
    ADD INDEX IF NOT EXISTS session_id_index session_id TYPE bloom_filter(0.01) GRANULARITY 8,
    ADD INDEX IF NOT EXISTS user_id_index user_id TYPE bloom_filter(0.01) GRANULARITY 8,
    ADD INDEX IF NOT EXISTS agent_id_index agent_id TYPE bloom_filter(0.01) GRANULARITY 8,
    ADD INDEX IF NOT EXISTS leaf_paths_index mapKeys(leaves) TYPE bloom_filter(0.01) GRANULARITY 8;

-- The ids in the attributes, which spans below a root have no other column for: a list of sessions reads these two columns instead of
-- all leaves. Of rows that were there before the engine takes them from the leaves.
ALTER TABLE spans
    ADD COLUMN IF NOT EXISTS session_in_attributes String MATERIALIZED substring(leaves['ag.session.id'], 2) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS user_in_attributes String MATERIALIZED substring(leaves['ag.user.id'], 2) CODEC(ZSTD(1));

-- Parts that are there already get all of it in the background; until then they are searched without.
ALTER TABLE spans
    MATERIALIZE INDEX trace_id_index,
    MATERIALIZE INDEX span_id_index,
    MATERIALIZE INDEX parent_id_index,
    MATERIALIZE INDEX name_index,
    MATERIALIZE INDEX session_id_index,
    MATERIALIZE INDEX user_id_index,
    MATERIALIZE INDEX agent_id_index,
    MATERIALIZE INDEX leaf_paths_index,
    MATERIALIZE COLUMN session_in_attributes,
    MATERIALIZE COLUMN user_in_attributes;
