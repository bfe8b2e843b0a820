-- arrivals --
-- The traces of the first arrivals of some ranges of offsets: of at least `rows_max`, with all of the last record.
SELECT
    toString(project_id) AS project, trace_id, count() AS arrivals_count,
    min((toString(partition_id), record_offset)) AS first, first.1 AS first_partition, first.2 AS first_offset,
    max((toString(partition_id), record_offset)) AS last, last.1 AS last_partition, last.2 AS last_offset
FROM
(
    SELECT project_id, trace_id, partition_id, record_offset
    FROM span_arrivals
    WHERE ({ranges}) AND {projects}
    ORDER BY toString(partition_id), record_offset
    LIMIT {rows_max:UInt32} WITH TIES
)
GROUP BY project_id, trace_id
ORDER BY first, project_id, trace_id

-- changed_traces --
-- Which of some traces have arrivals in some ranges of offsets. A trace id that two projects share is returned for both.
SELECT DISTINCT toString(project_id) AS project, trace_id
FROM span_arrivals
WHERE ({ranges}) AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')

-- visible_traces --
-- Which of some traces have a visible span, and whether they are complete: they have a root, no span of them is running,
-- and each parent is a span of them. The rule of the latest versions is in common/span_version.py. Ids are grouped,
-- so a trace takes time and memory in proportion to its spans, of which `versions_count` says all versions.
SELECT
    toString(project_id) AS project, trace_id,
    min(is_span) = 1 AND max(is_root) = 1 AND max(is_running) = 0 AS is_complete, sum(versions) AS versions_count
FROM
(
    SELECT
        project_id, trace_id, node.1 AS node_id,
        max(node.2) AS is_span, max(node.3) AS is_root, max(node.4) AS is_running, sum(node.5) AS versions
    FROM
    (
        SELECT
            project_id, trace_id, chosen.1 AS parent, chosen.2 AS version, parent = toFixedString('', 16) AS is_top,
            arrayJoin([(span_id, 1, is_top, {is_running}, versions), (parent, is_top, 0, 0, 0)]) AS node
        FROM
        (
            SELECT
                project_id, trace_id, span_id,
                argMax((parent_id, version), ({rank})) AS chosen, sum(versions) AS versions
            FROM
            (
                SELECT
                    project_id, trace_id, span_id, partition_id, versions,
                    latest.1 AS version, latest.2 AS record_ms, latest.3 AS parent_id
                FROM
                (
                    SELECT
                        project_id, trace_id, span_id, partition_id,
                        argMax((version, record_ms, parent_id), version) AS latest, count() AS versions
                    FROM span_versions
                    WHERE project_id IN {project_ids:Array(UUID)}
                        AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
                    GROUP BY project_id, trace_id, span_id, partition_id
                )
            )
            GROUP BY project_id, trace_id, span_id
        )
        WHERE {is_sent}
    )
    GROUP BY project_id, trace_id, node_id
)
GROUP BY project_id, trace_id

-- versions_counts --
-- How many versions of spans some traces have, of any project.
SELECT toString(project_id) AS project, trace_id, count() AS versions_count
FROM span_versions
WHERE project_id IN {project_ids:Array(UUID)}
    AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
GROUP BY project_id, trace_id

-- settlings --
-- How often some traces have settled, and in which run for the last time, for any reason and as complete.
SELECT
    toString(project_id) AS project, trace_id,
    max(generation) AS generation, max(run) AS last_run, max(complete_run) AS complete_run
FROM trace_settlings
WHERE project_id IN {project_ids:Array(UUID)}
    AND trace_id IN reinterpret({trace_ids:String}, 'Array(FixedString(16))')
GROUP BY project_id, trace_id
