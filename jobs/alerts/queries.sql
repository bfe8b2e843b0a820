-- due_alert --
SELECT slug, definition, selection, next_at, waiting_count FROM alerts
WHERE project_id = $1 AND id = $2 AND status = 'active';

-- breaches_of --
SELECT key, by, since FROM alert_breaches WHERE project_id = $1 AND alert_id = $2;

-- finish_evaluation --
-- Evaluations that were missed are left out.
UPDATE alerts SET
    evaluated_at = $3, groups_count = $4, left_out_count = $5, message_number = message_number + $6,
    waiting_count = waiting_count + $6,
    next_at = {next_at}
WHERE project_id = $1 AND id = $2
RETURNING message_number - $6 AS before_number, next_at;

-- next_at --
next_at + make_interval(
    secs => every_s * greatest(1, ceil(extract(epoch FROM clock_timestamp() - next_at)::double precision / every_s)))

-- fail_evaluation --
UPDATE alerts SET
    last_error = $3, last_error_at = clock_timestamp(),
    next_at = {next_at}
WHERE project_id = $1 AND id = $2
RETURNING next_at;

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

-- alert_with_messages --
SELECT slug, target, secrets, attempts, failing_since, retry_at FROM alerts
WHERE project_id = $1 AND id = $2 AND status = 'active';

-- messages_to_send --
SELECT number, kind, data, created_at FROM alert_messages WHERE project_id = $1 AND alert_id = $2
ORDER BY number LIMIT $3;

-- count_delivered --
UPDATE alerts SET
    waiting_count = waiting_count - 1, attempts = 0, failing_since = NULL, retry_at = NULL,
    delivered_count = delivered_count + 1, delivered_at = clock_timestamp()
WHERE project_id = $1 AND id = $2;

-- delete_message --
DELETE FROM alert_messages WHERE project_id = $1 AND alert_id = $2 AND number = $3;
