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
    retry_at = CASE WHEN $8 THEN NULL ELSE retry_at END,
    changes_count = changes_count + 1
WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- delete_subscription --
DELETE FROM subscriptions WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- pause_subscription --
UPDATE subscriptions SET
    status = 'paused', reason = $4, updated_by = $3, updated_at = clock_timestamp(), changes_count = changes_count + 1
WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- resume_subscription --
UPDATE subscriptions SET
    status = 'active', reason = NULL, attempts = 0, failing_since = NULL, retry_at = NULL, lease_until = NULL,
    lease_owner = NULL, updated_by = $3, updated_at = clock_timestamp(), changes_count = changes_count + 1
WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- replay_subscription --
UPDATE subscriptions SET
    position = $4, through_at = $5, pending = NULL, pending_revision = NULL, pending_expired = 0, attempts = 0,
    failing_since = NULL, retry_at = NULL, updated_by = $3, updated_at = clock_timestamp(), changes_count = changes_count + 1
WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- skip_batch --
-- Passes the batch that is being delivered, and records it. Returns no row if there is none.
UPDATE subscriptions SET
    position = pending, pending = NULL, pending_revision = NULL, attempts = 0, failing_since = NULL, retry_at = NULL,
    expired_spans = expired_spans + pending_expired, pending_expired = 0,
    expired_at = CASE WHEN pending_expired > 0 THEN clock_timestamp() ELSE expired_at END,
    skipped = $4, updated_by = $3, updated_at = clock_timestamp(), changes_count = changes_count + 1
WHERE project_id = $1 AND id = $2 AND pending IS NOT NULL AND batch_number = $5
RETURNING {shown_columns};

-- leased_columns --
project_id, id, slug, selection, target, secrets, position, through_at, batch_number, pending, pending_revision,
attempts, failing_since, retry_at, changes_count

-- claim_leases --
UPDATE subscriptions SET lease_owner = $1, lease_until = clock_timestamp() + make_interval(secs => $2)
WHERE (project_id, id) IN (
    SELECT project_id, id FROM subscriptions
    WHERE status = 'active' AND (lease_until IS NULL OR lease_until < clock_timestamp())
    ORDER BY lease_until NULLS FIRST
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
RETURNING {leased_columns};

-- renew_leases --
UPDATE subscriptions SET lease_until = clock_timestamp() + make_interval(secs => $2)
WHERE lease_owner = $1 AND status = 'active' AND id = ANY($3::uuid[])
RETURNING id, changes_count;

-- release_lease --
UPDATE subscriptions SET lease_owner = NULL, lease_until = NULL WHERE lease_owner = $1 AND id = $2 AND project_id = $3;

-- leased_subscription --
SELECT {leased_columns} FROM subscriptions
WHERE project_id = $1 AND id = $2 AND lease_owner = $3 AND status = 'active';

-- advance --
-- Moves a reader past what matches nothing.
UPDATE subscriptions SET
    position = $5, through_at = $6, expired_spans = expired_spans + $7,
    expired_at = CASE WHEN $7 > 0 THEN clock_timestamp() ELSE expired_at END
WHERE project_id = $1 AND id = $2 AND lease_owner = $3 AND changes_count = $4 AND pending IS NULL
RETURNING id;

-- begin_batch --
-- `position` is stored again: it may have passed what matches nothing.
UPDATE subscriptions SET
    position = $5, pending = $6, pending_revision = $7, pending_spans = $8, batch_number = batch_number + 1,
    expired_spans = expired_spans + $9, pending_expired = $10,
    expired_at = CASE WHEN $9 > 0 THEN clock_timestamp() ELSE expired_at END
WHERE project_id = $1 AND id = $2 AND lease_owner = $3 AND changes_count = $4 AND pending IS NULL
RETURNING batch_number;

-- end_batch --
UPDATE subscriptions SET
    position = pending, pending = NULL, pending_revision = NULL, through_at = $5, attempts = 0, failing_since = NULL,
    retry_at = NULL, delivered_spans = delivered_spans + $6, delivered_count = delivered_count + least($6, 1),
    delivered_at = CASE WHEN $6 > 0 THEN clock_timestamp() ELSE delivered_at END,
    rejected_spans = rejected_spans + $7,
    last_rejection = CASE WHEN $7 > 0 THEN $8 ELSE last_rejection END,
    last_rejection_at = CASE WHEN $7 > 0 THEN clock_timestamp() ELSE last_rejection_at END,
    expired_spans = expired_spans + $9, pending_expired = 0,
    expired_at = CASE WHEN $9 > 0 THEN clock_timestamp() ELSE expired_at END
WHERE project_id = $1 AND id = $2 AND lease_owner = $3 AND changes_count = $4 AND pending IS NOT NULL
RETURNING id;

-- record_failure --
UPDATE subscriptions SET
    attempts = $5, failing_since = $6, retry_at = $7, last_error = $8, last_error_at = clock_timestamp()
WHERE project_id = $1 AND id = $2 AND lease_owner = $3 AND changes_count = $4
RETURNING id;

-- pause_failed --
UPDATE subscriptions SET
    status = 'paused', reason = $5, last_error = $5, last_error_at = clock_timestamp(), retry_at = NULL,
    lease_owner = NULL, lease_until = NULL
WHERE project_id = $1 AND id = $2 AND lease_owner = $3 AND changes_count = $4
RETURNING id;

-- count_by_status --
SELECT CASE WHEN status = 'active' AND failing_since IS NOT NULL THEN 'retrying' ELSE status END AS state,
    count(*) AS number
FROM subscriptions GROUP BY state;
