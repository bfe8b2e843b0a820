-- shown_columns --
id, slug, name, selection, target, status, reason, position, through_at, batch_number, pending, pending_spans, attempts,
failing_since, retry_at, last_error, last_error_at, delivered_spans, delivered_count, delivered_at, skipped,
rejected_spans, last_rejection, last_rejection_at, expired_spans, expired_at,
created_at, created_by, updated_at, updated_by

-- lock_project --
-- Creations of one project wait for each other, so that none exceeds the limit.
SELECT id FROM projects WHERE id = $1 FOR UPDATE;

-- count_subscriptions --
SELECT count(*) AS number FROM subscriptions WHERE project_id = $1;

-- create_subscription --
INSERT INTO subscriptions (project_id, created_by, slug, name, selection, target, secrets, position, through_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
RETURNING {shown_columns};

-- find_subscription --
SELECT {shown_columns} FROM subscriptions WHERE project_id = $1 AND (id = $2 OR slug = $3);

-- list_subscriptions --
SELECT {shown_columns} FROM subscriptions WHERE project_id = $1 ORDER BY id;

-- find_secrets --
SELECT secrets FROM subscriptions WHERE project_id = $1 AND id = $2;

-- edit_subscription --
-- A batch that is being delivered is given up if what it holds or where it goes changes: the next one has a new number.
UPDATE subscriptions SET
    name = $4, selection = $5, target = $6, secrets = $7, updated_by = $3, updated_at = clock_timestamp(),
    pending = CASE WHEN $8 THEN NULL ELSE pending END,
    pending_revision = CASE WHEN $8 THEN NULL ELSE pending_revision END,
    pending_expired = CASE WHEN $8 THEN 0 ELSE pending_expired END,
    attempts = CASE WHEN $8 THEN 0 ELSE attempts END,
    failing_since = CASE WHEN $8 THEN NULL ELSE failing_since END,
    retry_at = CASE WHEN $8 THEN NULL ELSE retry_at END
WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- delete_subscription --
DELETE FROM subscriptions WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- pause_subscription --
UPDATE subscriptions SET
    status = 'paused', reason = $4, updated_by = $3, updated_at = clock_timestamp()
WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- resume_subscription --
UPDATE subscriptions SET
    status = 'active', reason = NULL, attempts = 0, failing_since = NULL, retry_at = NULL, updated_by = $3, updated_at = clock_timestamp()
WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- replay_subscription --
UPDATE subscriptions SET
    position = $4, through_at = $5, pending = NULL, pending_revision = NULL, pending_expired = 0, attempts = 0,
    failing_since = NULL, retry_at = NULL, updated_by = $3, updated_at = clock_timestamp()
WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- skip_batch --
-- Passes the batch that is being delivered, and records it. Returns no row if there is none.
UPDATE subscriptions SET
    position = pending, pending = NULL, pending_revision = NULL, attempts = 0, failing_since = NULL, retry_at = NULL,
    expired_spans = expired_spans + pending_expired, pending_expired = 0,
    expired_at = CASE WHEN pending_expired > 0 THEN clock_timestamp() ELSE expired_at END,
    skipped = $4, updated_by = $3, updated_at = clock_timestamp()
WHERE project_id = $1 AND id = $2 AND pending IS NOT NULL AND batch_number = $5
RETURNING {shown_columns};
