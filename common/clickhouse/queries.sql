-- create_migrations --
-- Which DDL files are applied on this server. Two processes may record the same file: the rows collapse to one.
CREATE TABLE IF NOT EXISTS migrations
(
    number     UInt32,
    name       String,
    sha256     FixedString(64),
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(applied_at)
ORDER BY number

-- applied_migrations --
SELECT number, any(sha256) AS sha256
FROM migrations
GROUP BY number

-- record_migration --
INSERT INTO migrations (number, name, sha256)
SELECT {number:UInt32}, {name:String}, {sha256:String}

-- stored_positions --
-- How far each partition is stored for each project, the most recently stored first.
SELECT
    toString(project_id) AS project,
    partition_id,
    max(through_offset) AS through,
    argMax(record_ms, through_offset) AS at_record_ms,
    argMax(stored_us, through_offset) AS at_stored_us
FROM stored_through
GROUP BY project_id, partition_id
ORDER BY at_stored_us DESC
LIMIT {rows_max:UInt32}

-- stored_positions_of_project --
-- Some rows of a partition, until the engine has merged them. Grouping them here takes as long as reading them.
SELECT
    toString(project_id) AS project,
    partition_id,
    through_offset AS through,
    record_ms AS at_record_ms,
    stored_us AS at_stored_us
FROM stored_through
WHERE project_id = {project_id:UUID}

-- cluster_nodes --
SELECT shard_num AS shard, host_name AS host
FROM system.clusters
WHERE cluster = {cluster:String}
ORDER BY shard_num, replica_num

-- comments --
SELECT name, comment
FROM system.tables
WHERE database = currentDatabase() AND engine = 'Distributed'

-- storage_policies --
-- The volumes of each storage policy, in the order in which they fill.
SELECT policy_name AS policy, volume_name AS volume, disks
FROM system.storage_policies
ORDER BY policy, volume_priority

-- tables_of_spans --
-- Only spans are moved; their events, which are divided into months as well, are few bytes.
SELECT name, storage_policy AS policy, engine_full AS definition
FROM system.tables
WHERE database = currentDatabase() AND endsWith(engine, 'MergeTree')
    AND partition_key != '' AND startsWith(name, 'spans')

-- events_counts --
-- The spans of some traces that have events of log records, and how many. It reads at most `rows_max` rows of a span.
SELECT toString(project_id) AS project, trace_id, span_id, uniqExact(event_id) AS events_count
FROM
(
    SELECT project_id, trace_id, span_id, event_id
    FROM
    (
        SELECT project_id, trace_id, span_id, event_id, partition_id, version
        FROM span_events
        WHERE project_id IN {project_ids:Array(UUID)}
            AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
        ORDER BY project_id, trace_id, span_id, event_id, partition_id
        LIMIT {rows_max:UInt32} BY project_id, trace_id, span_id
    )
    GROUP BY project_id, trace_id, span_id, event_id, partition_id
    HAVING max(version) % 2 = 0
)
GROUP BY project_id, trace_id, span_id

-- latest_versions_of_spans --
-- The rule is in query_api/spans/versions.py.
SELECT
    toString(project_id) AS project, trace_id, span_id, partition_id,
    latest.1 AS version, latest.3 AS start_us, latest.4 AS response_bytes
FROM
(
    SELECT
        project_id, trace_id, span_id, partition_id,
        argMax((version, record_ms, start_us, response_bytes), version) AS latest
    FROM span_versions
    WHERE project_id IN {project_ids:Array(UUID)}
        AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
        AND concat(trace_id, span_id) IN reinterpret({names:String}, 'Array(FixedString(32))')
    GROUP BY project_id, trace_id, span_id, partition_id
    HAVING latest.1 % 2 = 0
)
ORDER BY project_id, trace_id, span_id, latest.2 DESC, latest.1 DESC, partition_id DESC
LIMIT 1 BY project_id, trace_id, span_id

-- rows_of_spans --
SELECT toString(project_id) AS project, {columns}
FROM spans
PREWHERE project_id IN {project_ids:Array(UUID)}
    AND start_us IN reinterpret({starts:String}, 'Array(Int64)')
    AND version IN {versions:Array(UInt64)}
    AND concat(trace_id, span_id) IN reinterpret({names:String}, 'Array(FixedString(32))')

-- events_of_spans --
-- Each event of some spans, with its size. It reads at most `rows_max` rows of a span.
SELECT
    toString(project_id) AS project, trace_id, span_id, event_id,
    any(event_us) AS time_us, max(size) AS bytes_count
FROM
(
    SELECT
        project_id, trace_id, span_id, event_id, any(time_us) AS event_us, argMax(bytes_count, version) AS size
    FROM
    (
        SELECT
            project_id, trace_id, span_id, event_id, partition_id, version, time_us, length(event) AS bytes_count
        FROM span_events
        WHERE project_id IN {project_ids:Array(UUID)}
            AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
            AND concat(trace_id, span_id) IN reinterpret({names:String}, 'Array(FixedString(32))')
        ORDER BY project_id, trace_id, span_id, event_id, partition_id
        LIMIT {rows_max:UInt32} BY project_id, trace_id, span_id
    )
    GROUP BY project_id, trace_id, span_id, event_id, partition_id
    HAVING max(version) % 2 = 0
)
GROUP BY project_id, trace_id, span_id, event_id

-- texts_of_events --
SELECT toString(project_id) AS project, trace_id, span_id, event_id, max(event) AS event
FROM span_events
WHERE project_id IN {project_ids:Array(UUID)}
    AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
    AND concat(trace_id, span_id) IN reinterpret({names:String}, 'Array(FixedString(32))')
    AND event_id IN reinterpret({event_ids:String}, 'Array(FixedString(16))')
GROUP BY project_id, trace_id, span_id, event_id
