-- What was rejected, with its original bytes (ADR 0004): one row for each rejection, however often its record is
-- delivered. A dead letter that is replayed or dropped is replaced by a row that is resolved and holds no bytes. The
-- others stay until then.
CREATE TABLE IF NOT EXISTS dead_letters{on_cluster}
(
    id                        String                               CODEC(ZSTD(1)),
    is_resolved               UInt8                                CODEC(ZSTD(1)),
    topic                     LowCardinality(String),
    partition                 UInt32                               CODEC(ZSTD(1)),
    record_offset             UInt64                               CODEC(ZSTD(1)),
    span_index                UInt32                               CODEC(ZSTD(1)),  -- 4294967295: not one span
    code                      LowCardinality(String),
    reason                    String                               CODEC(ZSTD(1)),
    created_us                Int64                                CODEC(ZSTD(1)),
    bytes_count               UInt64                               CODEC(ZSTD(1)),
    codes                     String                               CODEC(ZSTD(1)),  -- JSON; '' unless spans share it
    project                   String                               CODEC(ZSTD(1)),  -- '' if none is named
    envelope                  String                               CODEC(ZSTD(1)),  -- JSON: key and headers, as base64
    value                     String                               CODEC(ZSTD(1))
)
ENGINE = {replicated}ReplacingMergeTree({replica_arguments}is_resolved)
ORDER BY id
SETTINGS {dedup_window_setting} = 1000, fsync_after_insert = 1, fsync_part_directory = 1;
