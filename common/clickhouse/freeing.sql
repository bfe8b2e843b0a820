-- dead_rows --
-- How many dead rows each part of a table has.
SELECT _part AS part, count() AS dead_count
FROM {table}{local}
WHERE {condition}
GROUP BY part

-- part_sizes --
SELECT name, partition_id AS partition, rows AS rows_count
FROM system.parts
WHERE active AND database = currentDatabase() AND table = {table:String}

-- rewrites --
-- The mutations of a table that are not done.
SELECT mutation_id, latest_fail_reason AS failure
FROM system.mutations
WHERE database = currentDatabase() AND table = {table:String} AND NOT is_done

-- stop_rewrite --
KILL MUTATION
WHERE database = currentDatabase() AND table = {table:String} AND mutation_id = {mutation:String}
SYNC

-- rows_of_project --
-- The rows of a project that is deleted.
project_id = {project_{n}:UUID}

-- dead_spans --
-- A row is alive if it is the latest version in its partition. Only rows that are surely visible in `span_versions`
-- are judged (ADR 0007).
project_id = {project_{n}:UUID}
    AND start_us < {before_{n}:Int64}
    AND toInt64({record_offset}) <= transform(
        toString(partition_id), {partitions_{n}:Array(String)}, {offsets_{n}:Array(Int64)}, toInt64(-1)
    )
    AND (
        arrival_partition_id = ''
        OR toInt64(arrival_offset) <= transform(
            toString(arrival_partition_id), {partitions_{n}:Array(String)}, {offsets_{n}:Array(Int64)}, toInt64(-1)
        )
    )
    AND (trace_id, span_id, partition_id, version) NOT IN (
        SELECT trace_id, span_id, partition_id, version
        FROM span_versions{local} FINAL
        WHERE project_id = {project_{n}:UUID} AND start_us < {before_{n}:Int64} AND {is_sent}
    )

-- dead_span_arrivals --
-- An arrival without a row in `spans`.
project_id = {project_{n}:UUID}
    AND start_us < {before_{n}:Int64}
    AND toInt64(record_offset) <= transform(
        toString(partition_id), {partitions_{n}:Array(String)}, {offsets_{n}:Array(Int64)}, toInt64(-1)
    )
    AND (partition_id, record_offset, span_index) NOT IN (
        SELECT
            if(arrival_partition_id = '', partition_id, arrival_partition_id),
            if(arrival_partition_id = '', {record_offset}, arrival_offset),
            span_index
        FROM spans{local}
        WHERE project_id = {project_{n}:UUID} AND start_us < {before_{n}:Int64}
    )

-- dead_span_versions --
-- A version that is deleted or replaced. Deletions stay: a record may be delivered again.
project_id = {project_{n}:UUID}
    AND start_us < {before_{n}:Int64}
    AND {is_sent}
    AND toInt64({record_offset}) <= transform(
        toString(partition_id), {partitions_{n}:Array(String)}, {offsets_{n}:Array(Int64)}, toInt64(-1)
    )
    AND (trace_id, span_id, partition_id, version) NOT IN (
        SELECT trace_id, span_id, partition_id, version
        FROM span_versions{local} FINAL
        WHERE project_id = {project_{n}:UUID} AND start_us < {before_{n}:Int64} AND {is_sent}
    )

-- dead_span_events --
-- An event that is deleted, or sent again.
project_id = {project_{n}:UUID}
    AND time_us < {before_{n}:Int64}
    AND {is_sent}
    AND toInt64({record_offset}) <= transform(
        toString(partition_id), {partitions_{n}:Array(String)}, {offsets_{n}:Array(Int64)}, toInt64(-1)
    )
    AND (trace_id, span_id, event_id, partition_id, version) NOT IN (
        SELECT trace_id, span_id, event_id, partition_id, version
        FROM span_events{local} FINAL
        WHERE project_id = {project_{n}:UUID} AND time_us < {before_{n}:Int64} AND {is_sent}
    )

-- dead_settled_traces --
-- A settling so old that all spans that the trace had then are deleted: they started at most `ahead` after it. If the
-- trace has got others since, it has settled again. Its versions may be on other shards.
project_id = {project_{n}:UUID}
    AND settled_us < {before_{n}:Int64} - {ahead_{n}:Int64}
