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
-- The spans of some traces about which there are rows in `span_events`: how many events, and how many verdicts of
-- annotations. It reads at most `rows_max` rows of events, and `verdicts_max` of verdicts, about a span: the second
-- limit counts the events of a span together, and each verdict alone.
SELECT
    toString(project_id) AS project, trace_id, span_id,
    uniqExactIf(event_id, is_event) AS events_count, uniqExactIf(event_id, NOT is_event) AS verdicts_count
FROM
(
    SELECT project_id, trace_id, span_id, event_id, min(is_of_event) AS is_event
    FROM
    (
        SELECT project_id, trace_id, span_id, event_id, partition_id, version, is_of_event
        FROM
        (
            SELECT
                project_id, trace_id, span_id, event_id, partition_id, version,
                source_trace_id = toFixedString('', 16) AS is_of_event
            FROM span_events
            WHERE project_id IN {project_ids:Array(UUID)}
                AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
            ORDER BY project_id, trace_id, span_id, event_id, partition_id
            LIMIT {verdicts_max:UInt32} BY project_id, trace_id, span_id, is_of_event
        )
        LIMIT {rows_max:UInt32} BY project_id, trace_id, span_id, if(is_of_event, toFixedString('', 16), event_id)
    )
    GROUP BY project_id, trace_id, span_id, event_id, partition_id
    HAVING max(version) % 2 = 0
)
GROUP BY project_id, trace_id, span_id

-- latest_versions_of_spans --
-- Of spans that are named as responses show them. The rule is in common/span_version.py.
SELECT toString(project_id) AS project, trace_id, span_id, partition_id, version, start_us, response_bytes
FROM
(
    SELECT
        project_id, trace_id, span_id, partition_id,
        latest.1 AS version, latest.2 AS record_ms, latest.3 AS start_us, latest.4 AS response_bytes
    FROM
    (
        SELECT
            project_id, trace_id, span_id, partition_id,
            argMax((version, record_ms, start_us, response_bytes), version) AS latest
        FROM span_versions
        WHERE project_id IN {project_ids:Array(UUID)}
            AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
            AND concat(trace_id, {shown_span_id}) IN reinterpret({names:String}, 'Array(FixedString(32))')
        GROUP BY project_id, trace_id, span_id, partition_id
    )
    ORDER BY project_id, trace_id, span_id, {latest_first}
    LIMIT 1 BY project_id, trace_id, span_id
)
WHERE version % 2 = 0

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
            AND source_trace_id = toFixedString('', 16)
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

-- verdicts_of_spans --
-- The last verdict of each annotation of some spans, with its size, and how many there are of the annotation: of each
-- partition the last one, and of these the one with the highest rank. It reads at most `verdicts_max` rows about a span,
-- those with the highest versions.
SELECT
    toString(project_id) AS project, trace_id, span_id, source_trace_id, source_span_id,
    latest.1 AS event_id, latest.2 AS bytes_count, latest.3 AS time_us, verdicts_count
FROM
(
    SELECT
        project_id, trace_id, span_id, source_trace_id, source_span_id,
        argMax((last.1, last.2, last.5), {rank}) AS latest, sum(ids_count) AS verdicts_count
    FROM
    (
        SELECT
            project_id, trace_id, span_id, source_trace_id, source_span_id, partition_id,
            argMax((verdict_id, size, number, at_ms, at_us), (number, size > 0)) AS last, count() AS ids_count,
            last.2 > 0 AS has_scores, last.3 AS version, last.4 AS record_ms
        FROM
        (
            SELECT
                project_id, trace_id, span_id, partition_id, verdict_id, max(row_version) AS number,
                max(source_trace) AS source_trace_id, max(source_span) AS source_span_id,
                argMax(row_ms, row_version) AS at_ms, max(row_us) AS at_us, argMax(bytes_count, row_version) AS size
            FROM
            (
                SELECT
                    project_id, trace_id, span_id, event_id AS verdict_id, partition_id, version AS row_version,
                    record_ms AS row_ms, time_us AS row_us, length(event) AS bytes_count, source_trace_id AS source_trace,
                    source_span_id AS source_span
                FROM span_events
                WHERE project_id IN {project_ids:Array(UUID)}
                    AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
                    AND concat(trace_id, span_id) IN reinterpret({names:String}, 'Array(FixedString(32))')
                    AND source_trace_id != toFixedString('', 16)
                ORDER BY project_id, trace_id, span_id, version DESC, event_id, partition_id
                LIMIT {verdicts_max:UInt32} BY project_id, trace_id, span_id
            )
            GROUP BY project_id, trace_id, span_id, verdict_id, partition_id
            HAVING number % 2 = 0
        )
        GROUP BY project_id, trace_id, span_id, source_trace_id, source_span_id, partition_id
    )
    GROUP BY project_id, trace_id, span_id, source_trace_id, source_span_id
)

-- last_versions_of_spans --
-- The last version of some spans in each partition, also if it is a deletion. They are named as responses show them.
SELECT
    toString(project_id) AS project, trace_id, span_id, partition_id,
    max(version) AS last, argMax(record_ms, version) AS last_ms
FROM span_versions
WHERE project_id IN {project_ids:Array(UUID)}
    AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
    AND concat(trace_id, {shown_span_id}) IN reinterpret({names:String}, 'Array(FixedString(32))')
GROUP BY project_id, trace_id, span_id, partition_id

-- judging_annotations --
-- Those of some annotations that have judged a span.
SELECT DISTINCT toString(project_id) AS project, source_trace_id, source_span_id
FROM judged_spans
WHERE project_id IN {project_ids:Array(UUID)}
    AND source_trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
    AND concat(source_trace_id, source_span_id) IN reinterpret({names:String}, 'Array(FixedString(32))')

-- spans_of_annotations --
-- The spans to which annotations give scores, and the version of the annotation that says so: of each partition the
-- last one, and of these the one with the highest rank.
SELECT
    toString(project_id) AS project, source_trace_id, source_span_id, trace_id, span_id,
    latest.1 AS partition_id, latest.2 AS version, latest.3 AS record_ms
FROM
(
    SELECT
        project_id, source_trace_id, source_span_id, trace_id, span_id,
        argMax((partition_id, version, record_ms, has_scores), {rank}) AS latest
    FROM
    (
        SELECT
            project_id, source_trace_id, source_span_id, trace_id, span_id, partition_id,
            last.1 AS version, last.2 AS has_scores, last.3 AS record_ms
        FROM
        (
            SELECT
                project_id, source_trace_id, source_span_id, trace_id, span_id, partition_id,
                argMax((version, has_scores, record_ms), number) AS last
            FROM judged_spans
            WHERE project_id IN {project_ids:Array(UUID)}
                AND source_trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
                AND concat(source_trace_id, source_span_id) IN reinterpret({names:String}, 'Array(FixedString(32))')
            GROUP BY project_id, source_trace_id, source_span_id, trace_id, span_id, partition_id
        )
        WHERE version % 2 = 0
    )
    GROUP BY project_id, source_trace_id, source_span_id, trace_id, span_id
)
WHERE latest.4

-- spans_of_responses --
-- The spans of some responses, found by an index of short values, or of words.
SELECT
    toString(project_id) AS project, trace_id, span_id, substring(leaves['ag.meta.response.id'], 2) AS response_id
FROM spans
WHERE project_id IN {project_ids:Array(UUID)}
    AND (hasAny({leaf_pairs}, {pairs:Array(String)}) OR hasAnyTokens({content}, {words:Array(String)}))
    AND leaves['ag.meta.response.id'] IN {response_ids:Array(String)}
GROUP BY project_id, trace_id, span_id, response_id
ORDER BY project_id, response_id, trace_id, span_id
LIMIT {spans_max:UInt32} BY project_id, response_id

-- sizes_of_evaluations --
-- How many bytes the evaluations of some responses take that wait for their spans.
SELECT toString(project_id) AS project, trace_id, span_id, sum(length(event)) AS bytes_count
FROM
(
    SELECT project_id, trace_id, span_id, event
    FROM span_events
    WHERE project_id IN {project_ids:Array(UUID)}
        AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
        AND span_id = toFixedString('', 16)
    ORDER BY project_id, trace_id, span_id, event_id, partition_id
    LIMIT {rows_max:UInt32} BY project_id, trace_id, span_id
)
GROUP BY project_id, trace_id, span_id

-- waiting_evaluations --
-- The evaluations of some responses: the first ones, by their ids.
SELECT
    toString(project_id) AS project, trace_id, span_id, event_id, partition_id, version AS last,
    span_index AS index, record_ms AS at_ms, time_us AS event_us, event AS text
FROM
(
    SELECT *
    FROM span_events
    WHERE project_id IN {project_ids:Array(UUID)}
        AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
        AND span_id = toFixedString('', 16)
    ORDER BY project_id, trace_id, span_id, event_id, partition_id, version DESC
    LIMIT 1 BY project_id, trace_id, span_id, event_id, partition_id
)
WHERE version % 2 = 0
ORDER BY project_id, trace_id, event_id, partition_id
LIMIT {rows_max:UInt32} BY project_id, trace_id

-- waiting_events --
-- What is stored about spans that are not stored, by project. An evaluation of a response does not wait if it was stored
-- once more, about a span.
WITH of_spans AS
(
    SELECT
        project_id, trace_id, span_id, event_id, any(time_us) AS event_us,
        max(source_trace_id) AS annotation_id,
        argMax(event, version) AS text
    FROM
    (
        SELECT * FROM span_events
        ORDER BY project_id, trace_id, span_id, event_id, partition_id, version DESC
        LIMIT 1 BY project_id, trace_id, span_id, event_id, partition_id
    )
    WHERE version % 2 = 0
    GROUP BY project_id, trace_id, span_id, event_id
)
SELECT
    toString(project_id) AS project,
    countIf(NOT is_verdict AND NOT is_evaluation) AS events_count,
    countIf(NOT is_verdict AND is_evaluation) AS evaluations_count,
    countIf(is_verdict) AS verdicts_count,
    min(event_us) AS oldest_us
FROM
(
    SELECT
        project_id, event_us,
        annotation_id != toFixedString('', 16) AS is_verdict,
        JSONExtractString(text, 'name') = 'gen_ai.evaluation.result' AS is_evaluation
    FROM of_spans
    WHERE NOT (annotation_id != toFixedString('', 16) AND text = '')
        AND if(
            span_id = toFixedString('', 16),
            (project_id, event_id) NOT IN (
                SELECT project_id, event_id FROM span_events WHERE span_id != toFixedString('', 16)
            ),
            (project_id, trace_id, span_id) NOT IN (
                SELECT project_id, trace_id, {shown_span_id}
                FROM span_versions
                WHERE trace_id IN (SELECT trace_id FROM span_events)
            )
        )
)
GROUP BY project_id
ORDER BY events_count + evaluations_count + verdicts_count DESC, project
LIMIT {projects_max:UInt32}
