-- shown_columns --
id, slug, name, definition, selection, target, status, reason, next_at, evaluated_at, groups_count, left_out_count,
message_number, waiting_count, attempts, failing_since, retry_at, delivered_count, delivered_at, last_error,
last_error_at, created_at, created_by, updated_at, updated_by

-- lock_project --
-- Creations of one project wait for each other, so that none exceeds the limit.
SELECT id FROM projects WHERE id = $1 FOR UPDATE;

-- count_alerts --
SELECT count(*) AS number FROM alerts WHERE project_id = $1;

-- create_alert --
INSERT INTO alerts (project_id, created_by, slug, name, definition, every_s, selection, target, secrets)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
RETURNING {shown_columns};

-- find_alert --
SELECT {shown_columns} FROM alerts WHERE project_id = $1 AND (id = $2 OR slug = $3);

-- list_alerts --
SELECT {shown_columns} FROM alerts WHERE project_id = $1 ORDER BY id;

-- find_secrets --
SELECT secrets FROM alerts WHERE project_id = $1 AND id = $2;

-- count_breaches --
SELECT alert_id, count(*) AS number FROM alert_breaches WHERE project_id = $1 GROUP BY alert_id;

-- list_breaches --
SELECT by, value, since FROM alert_breaches WHERE project_id = $1 AND alert_id = $2 ORDER BY since, key LIMIT $3;

-- edit_alert --
-- The next evaluation is at once; the groups that are in breach stay until it.
UPDATE alerts SET
    name = $4, definition = $5, every_s = $6, selection = $7, target = $8, secrets = $9, next_at = clock_timestamp(),
    {changed}
WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- changed --
    updated_by = $3, updated_at = clock_timestamp(), attempts = 0, failing_since = NULL,
    retry_at = NULL

-- delete_alert --
DELETE FROM alerts WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- pause_alert --
UPDATE alerts SET status = 'paused', reason = $4,
    {changed}
WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- resume_alert --
UPDATE alerts SET status = 'active', reason = NULL, next_at = clock_timestamp(),
    {changed}
WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- drop_message --
DELETE FROM alert_messages WHERE (project_id, alert_id, number) IN (
    SELECT project_id, alert_id, min(number) FROM alert_messages WHERE project_id = $1 AND alert_id = $2
    GROUP BY project_id, alert_id
)
RETURNING number;

-- skip_message --
UPDATE alerts SET waiting_count = waiting_count - 1,
    {changed}
WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};
