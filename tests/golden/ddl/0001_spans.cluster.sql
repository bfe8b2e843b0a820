-- formerly abf092e81ae7f23b5d89555389bfcf8776592b66b14c217972d8b91edbdb6d46
-- (the same tables with granules of 4,096 and 1,024 rows: everything works on them, and takes longer; ADR 0003)

-- The spans as they are answered, one row a version. In the order of pages: project, start, span, trace.
-- `partition_id` and `record_offset` are the Kafka coordinates that decide which version is the latest (ADR 0003).
CREATE TABLE IF NOT EXISTS spans ON CLUSTER `main`
(
    project_id                 UUID,
    start_us                   Int64                              CODEC(Delta, ZSTD(1)),
    span_id                    FixedString(16)                    CODEC(ZSTD(1)),
    trace_id                   FixedString(16)                    CODEC(ZSTD(1)),
    partition_id                        LowCardinality(String),
    record_offset                 UInt64                             CODEC(Delta, ZSTD(1)),
    span_index                 UInt32                             CODEC(T64, ZSTD(1)),
    record_ms                  Int64                              CODEC(Delta, ZSTD(1)),
    stored_us                  Int64                              CODEC(Delta, ZSTD(1)),
    parent_id                  FixedString(16)                    CODEC(ZSTD(1)),
    end_us                     Int64                              CODEC(Delta, ZSTD(1)),
    start_ns_rest              UInt16                             CODEC(T64, ZSTD(1)),
    end_ns_rest                UInt16                             CODEC(T64, ZSTD(1)),
    name                       LowCardinality(String),
    kind                       UInt8                              CODEC(ZSTD(1)),
    status_code                UInt8                              CODEC(ZSTD(1)),
    status_message             Nullable(String)                   CODEC(ZSTD(1)),
    trace_type                 LowCardinality(String),
    span_type                  LowCardinality(String),
    session_id                 Nullable(String)                   CODEC(ZSTD(1)),
    user_id                    Nullable(String)                   CODEC(ZSTD(1)),
    agent_id                   Nullable(String)                   CODEC(ZSTD(1)),
    trace_state                String                             CODEC(ZSTD(1)),
    flags                      UInt32                             CODEC(T64, ZSTD(1)),
    dropped_attributes_count   UInt32                             CODEC(T64, ZSTD(1)),
    dropped_events_count       UInt32                             CODEC(T64, ZSTD(1)),
    dropped_links_count        UInt32                             CODEC(T64, ZSTD(1)),
    tokens_prompt              Float64                            CODEC(ZSTD(1)),
    tokens_completion          Float64                            CODEC(ZSTD(1)),
    tokens_total               Float64                            CODEC(ZSTD(1)),
    costs_prompt               Float64                            CODEC(ZSTD(1)),
    costs_completion           Float64                            CODEC(ZSTD(1)),
    costs_total                Float64                            CODEC(ZSTD(1)),
    errors                     Float64                            CODEC(ZSTD(1)),
    -- What answers show, as JSON text; '' where the member is absent.
    attributes                 String                             CODEC(ZSTD(1)),
    events                     String                             CODEC(ZSTD(1)),
    links                      String                             CODEC(ZSTD(1)),
    references                 String                             CODEC(ZSTD(1)),
    hashes                     String                             CODEC(ZSTD(1)),
    resource                   LowCardinality(String),
    scope                      LowCardinality(String),
    answer_bytes               UInt32                             CODEC(T64, ZSTD(1)),
    -- What filters look at: dotted path -> typed text (common/clickhouse/leaves.py).
    leaves                     Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    leaf_items Array(String) ALIAS arrayMap(leaf -> concat(leaf.1, '=', left(leaf.2, 64)), CAST(leaves, 'Array(Tuple(String, String))')),
    INDEX leaf_items_index leaf_items TYPE text(tokenizer = 'array')
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', record_offset)
PARTITION BY (toYYYYMM(fromUnixTimestamp64Micro(start_us)))
ORDER BY (project_id, start_us, span_id, trace_id, partition_id)
SETTINGS replicated_deduplication_window = 1000, index_granularity = 512, min_compress_block_size = 8192;

-- Which version of a span is the latest, and where it stands: a narrow row a version, in the order of traces.
-- Answers the head check of a page, a trace by its id, the roll-up of a trace, and deletions (`deleted` = 1).
CREATE TABLE IF NOT EXISTS span_versions ON CLUSTER `main`
(
    project_id                 UUID,
    trace_id                   FixedString(16)                    CODEC(ZSTD(1)),
    span_id                    FixedString(16)                    CODEC(ZSTD(1)),
    partition_id                        LowCardinality(String),
    version                    UInt64                             CODEC(T64, ZSTD(1)),
    record_ms                  Int64                              CODEC(T64, ZSTD(1)),
    start_us                   Int64                              CODEC(T64, ZSTD(1)),
    tokens_prompt              Float64                            CODEC(ZSTD(1)),
    tokens_completion          Float64                            CODEC(ZSTD(1)),
    tokens_total               Float64                            CODEC(ZSTD(1)),
    costs_prompt               Float64                            CODEC(ZSTD(1)),
    costs_completion           Float64                            CODEC(ZSTD(1)),
    costs_total                Float64                            CODEC(ZSTD(1)),
    errors                     Float64                            CODEC(ZSTD(1))
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', version)
ORDER BY (project_id, trace_id, span_id, partition_id)
SETTINGS replicated_deduplication_window = 1000, index_granularity = 512, min_compress_block_size = 4096;

-- `version` is the offset doubled; a deletion of that version is one more (odd), so it wins over what it deletes and
-- loses to the next record.
CREATE MATERIALIZED VIEW IF NOT EXISTS span_versions_of_spans ON CLUSTER `main` TO span_versions AS
SELECT
    project_id, trace_id, span_id, partition_id, record_offset * 2 AS version, record_ms, start_us,
    tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors
FROM spans;
