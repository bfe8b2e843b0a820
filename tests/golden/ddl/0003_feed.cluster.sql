-- The spans in the order of their logs: a narrow row a version. What the feed goes along (ADR 0007).
-- A version leads by `start_us` to its row in `spans`, by primary key; where that is gone, the version was replaced.
CREATE TABLE IF NOT EXISTS span_arrivals ON CLUSTER `main`
(
    project_id                 UUID,
    partition_id                        LowCardinality(String),
    record_offset                 UInt64                             CODEC(Delta, ZSTD(1)),
    span_index                 UInt32                             CODEC(Delta, ZSTD(1)),
    start_us                   Int64                              CODEC(Delta, ZSTD(1)),
    stored_us                  Int64                              CODEC(Delta, ZSTD(1))
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', record_offset)
ORDER BY (project_id, partition_id, record_offset, span_index)
SETTINGS replicated_deduplication_window = 1000, index_granularity = 4096;

CREATE MATERIALIZED VIEW IF NOT EXISTS span_arrivals_of_spans ON CLUSTER `main` TO span_arrivals AS
SELECT project_id, partition_id, record_offset, span_index, start_us, stored_us
FROM spans;

-- How far each partition_id is stored, by project; the project of zeros stands for every record. Written after the insert that it is
-- about has returned, so what it says is visible as a whole; an insert itself is not.
CREATE TABLE IF NOT EXISTS stored_through ON CLUSTER `main`
(
    project_id                 UUID,
    partition_id                        LowCardinality(String),
    through_offset             UInt64,
    record_ms                  Int64,
    stored_us                  Int64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', through_offset)
ORDER BY (project_id, partition_id)
SETTINGS replicated_deduplication_window = 1000;

-- What was stored before there were these tables. Twice is harmless: all of them collapse.
INSERT INTO span_arrivals SELECT project_id, partition_id, record_offset, span_index, start_us, stored_us FROM spans;

-- Only what is two minutes old: a worker of the version before may be in the middle of an insert, which takes one at most.
INSERT INTO stored_through
SELECT project_id, partition_id, max(record_offset), argMax(record_ms, record_offset), max(stored_us)
FROM spans
WHERE stored_us < toUnixTimestamp64Micro(now64(6)) - 120000000
GROUP BY project_id, partition_id;

INSERT INTO stored_through
SELECT toUUID('00000000-0000-0000-0000-000000000000'), partition_id, max(record_offset), argMax(record_ms, record_offset), max(stored_us)
FROM spans
WHERE stored_us < toUnixTimestamp64Micro(now64(6)) - 120000000
GROUP BY partition_id;
