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
    updated_by = $3, updated_at = clock_timestamp(), changes_count = changes_count + 1, attempts = 0,
    failing_since = NULL, retry_at = NULL, lease_owner = NULL, lease_until = NULL, send_owner = NULL, send_until = NULL

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

-- claim_due --
-- Alerts to evaluate now. `$4` are the projects that have as many evaluations running as they may.
UPDATE alerts SET lease_owner = $1, lease_until = clock_timestamp() + make_interval(secs => $2)
WHERE (project_id, id) IN (
    SELECT project_id, id FROM alerts
    WHERE status = 'active' AND next_at <= clock_timestamp() AND project_id <> ALL ($4::uuid[])
        AND (lease_until IS NULL OR lease_until < clock_timestamp())
    ORDER BY next_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
RETURNING project_id, id, slug, definition, selection, next_at, message_number, waiting_count, changes_count;

-- breaches_of --
SELECT key, by, since FROM alert_breaches WHERE project_id = $1 AND alert_id = $2;

-- finish_evaluation --
-- Evaluations that were missed are left out.
UPDATE alerts SET
    evaluated_at = $5, groups_count = $6, left_out_count = $7, message_number = message_number + $8,
    waiting_count = waiting_count + $8, lease_owner = NULL, lease_until = NULL,
    next_at = {next_at}
WHERE project_id = $1 AND id = $2 AND lease_owner = $3 AND changes_count = $4
RETURNING message_number - $8 AS before_number;

-- next_at --
next_at + make_interval(
    secs => every_s * greatest(1, ceil(extract(epoch FROM clock_timestamp() - next_at)::double precision / every_s)))

-- fail_evaluation --
UPDATE alerts SET
    last_error = $5, last_error_at = clock_timestamp(), lease_owner = NULL, lease_until = NULL,
    next_at = {next_at}
WHERE project_id = $1 AND id = $2 AND lease_owner = $3 AND changes_count = $4
RETURNING id;

-- add_breaches --
INSERT INTO alert_breaches (project_id, alert_id, key, by, value, since)
SELECT $1, $2, key, by::json, value, $6
FROM unnest($3::bytea[], $4::text[], $5::double precision[]) AS seen (key, by, value)
ON CONFLICT (project_id, alert_id, key) DO UPDATE SET value = EXCLUDED.value;

-- remove_breaches --
DELETE FROM alert_breaches WHERE project_id = $1 AND alert_id = $2 AND key = ANY ($3::bytea[]);

-- add_messages --
INSERT INTO alert_messages (project_id, alert_id, number, kind, data, created_at)
SELECT $1, $2, $3 + position, kind, data::json, $6
FROM unnest($4::text[], $5::text[]) WITH ORDINALITY AS made (kind, data, position);

-- claim_to_send --
-- Alerts with messages to deliver now. `$4` as in claim_due.
UPDATE alerts SET send_owner = $1, send_until = clock_timestamp() + make_interval(secs => $2)
WHERE (project_id, id) IN (
    SELECT project_id, id FROM alerts
    WHERE status = 'active' AND waiting_count > 0 AND project_id <> ALL ($4::uuid[])
        AND (retry_at IS NULL OR retry_at <= clock_timestamp())
        AND (send_until IS NULL OR send_until < clock_timestamp())
    ORDER BY send_until NULLS FIRST
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
RETURNING project_id, id, slug, target, secrets, attempts, failing_since, changes_count;

-- messages_to_send --
SELECT number, kind, data, created_at FROM alert_messages WHERE project_id = $1 AND alert_id = $2
ORDER BY number LIMIT $3;

-- finish_message --
-- Deletes an acknowledged message, and keeps the lease for the next one.
WITH held AS (
    UPDATE alerts SET
        waiting_count = waiting_count - 1, attempts = 0, failing_since = NULL, retry_at = NULL,
        delivered_count = delivered_count + 1, delivered_at = clock_timestamp(),
        send_until = clock_timestamp() + make_interval(secs => $6)
    WHERE project_id = $1 AND id = $2 AND send_owner = $3 AND changes_count = $4
    RETURNING project_id, id
)
DELETE FROM alert_messages AS message USING held
WHERE message.project_id = held.project_id AND message.alert_id = held.id AND message.number = $5
RETURNING message.number;

-- end_sending --
UPDATE alerts SET send_owner = NULL, send_until = NULL
WHERE project_id = $1 AND id = $2 AND send_owner = $3 AND changes_count = $4;

-- retry_later --
UPDATE alerts SET
    attempts = $5, failing_since = $6, retry_at = $7, last_error = $8, last_error_at = clock_timestamp(),
    send_owner = NULL, send_until = NULL
WHERE project_id = $1 AND id = $2 AND send_owner = $3 AND changes_count = $4
RETURNING id;

-- pause_failed --
UPDATE alerts SET
    status = 'paused', reason = $5, last_error = $5, last_error_at = clock_timestamp(), retry_at = NULL,
    lease_owner = NULL, lease_until = NULL, send_owner = NULL, send_until = NULL
WHERE project_id = $1 AND id = $2 AND send_owner = $3 AND changes_count = $4
RETURNING id;

-- release_leases --
UPDATE alerts SET
    lease_until = CASE WHEN lease_owner = $1 THEN NULL ELSE lease_until END,
    send_until = CASE WHEN send_owner = $1 THEN NULL ELSE send_until END,
    lease_owner = nullif(lease_owner, $1), send_owner = nullif(send_owner, $1)
WHERE lease_owner = $1 OR send_owner = $1;

-- count_by_status --
SELECT CASE WHEN status = 'active' AND failing_since IS NOT NULL THEN 'retrying' ELSE status END AS state,
    count(*) AS number
FROM alerts GROUP BY state;
