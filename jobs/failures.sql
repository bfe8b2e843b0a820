-- record_retry --
UPDATE {table} SET
    attempts = $3, failing_since = $4, retry_at = $5, last_error = $6, last_error_at = clock_timestamp()
WHERE project_id = $1 AND id = $2;

-- pause --
UPDATE {table} SET
    status = 'paused', reason = $3, last_error = $3, last_error_at = clock_timestamp(), retry_at = NULL
WHERE project_id = $1 AND id = $2;

-- count_by_status --
SELECT CASE WHEN status = 'active' AND failing_since IS NOT NULL THEN 'retrying' ELSE status END AS state,
    count(*) AS number
FROM {table} GROUP BY state;
