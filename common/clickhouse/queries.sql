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
-- Only the rows of spans are divided into months.
SELECT name, storage_policy AS policy, engine_full AS definition
FROM system.tables
WHERE database = currentDatabase() AND endsWith(engine, 'MergeTree') AND partition_key != ''
