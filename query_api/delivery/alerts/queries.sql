-- count_breaches --
SELECT alert_id, count(*) AS number FROM alert_breaches WHERE project_id = $1 GROUP BY alert_id;

-- list_breaches --
SELECT by, value, since FROM alert_breaches WHERE project_id = $1 AND alert_id = $2 ORDER BY since, key LIMIT $3;

-- drop_message --
WITH dropped AS (
    DELETE FROM alert_messages WHERE (project_id, alert_id, number) IN (
        SELECT project_id, alert_id, min(number) FROM alert_messages WHERE project_id = $1 AND alert_id = $2
        GROUP BY project_id, alert_id
    )
    RETURNING alert_id
)
UPDATE alerts SET
    waiting_count = waiting_count - 1, attempts = 0, failing_since = NULL, retry_at = NULL, updated_by = $3,
    updated_at = clock_timestamp()
FROM dropped WHERE alerts.project_id = $1 AND alerts.id = dropped.alert_id
RETURNING {columns};
