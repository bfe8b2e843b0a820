-- find_rules --
SELECT max_age_days, max_bytes, updated_at FROM retention_rules WHERE project_id = $1;

-- set_rules --
INSERT INTO retention_rules (project_id, max_age_days, max_bytes, updated_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (project_id) DO UPDATE
SET max_age_days = excluded.max_age_days, max_bytes = excluded.max_bytes, updated_by = excluded.updated_by,
    updated_at = now();

-- remove_rules --
DELETE FROM retention_rules WHERE project_id = $1;

-- projects_with_rules --
-- The project whose last run began first comes first: a run that ends early continues there.
SELECT rules.project_id, rules.max_age_days, rules.max_bytes, rules.updated_at
FROM retention_rules AS rules
LEFT JOIN retention_results AS results USING (project_id)
ORDER BY results.started_at NULLS FIRST, rules.project_id;

-- find_result --
SELECT * FROM retention_results WHERE project_id = $1;

-- begin_result --
-- -2^63 is before every span.
INSERT INTO retention_results (project_id, before_us, started_at) VALUES ($1, -9223372036854775808, now())
ON CONFLICT (project_id) DO UPDATE
SET started_at = now(), ended_at = NULL, failure = NULL, traces_count = 0, spans_count = 0, bytes_count = 0;

-- raise_before --
UPDATE retention_results SET before_us = greatest(before_us, $2) WHERE project_id = $1;

-- add_to_result --
UPDATE retention_results
SET traces_count = traces_count + $2, spans_count = spans_count + $3, bytes_count = bytes_count + $4,
    traces_total = traces_total + $2, spans_total = spans_total + $3, bytes_total = bytes_total + $4
WHERE project_id = $1;

-- end_result --
UPDATE retention_results SET ended_at = now(), failure = $2 WHERE project_id = $1;

-- results_to_free --
-- The projects of which rows may be dead. `is_due`: the last check that found none is long ago.
SELECT project_id, before_us, freed_at < now() - $1::interval AS is_due
FROM retention_results
ORDER BY project_id;

-- mark_freed --
UPDATE retention_results SET freed_at = now() WHERE project_id = $1;

-- deleted_projects --
SELECT id, deleted_at < now() - $1::interval AS is_final FROM deleted_projects ORDER BY deleted_at;

-- forget_deleted_project --
DELETE FROM deleted_projects WHERE id = $1;
