-- load --
SELECT slug, feed, selection, target, secrets, position, through_at, batch_number, pending, pending_revision, attempts,
    failing_since, retry_at
FROM subscriptions WHERE project_id = $1 AND id = $2 AND status = 'active';

-- advance --
-- Moves a reader past what matches nothing.
UPDATE subscriptions SET
    position = $3, through_at = $4, expired_spans = expired_spans + $5,
    expired_at = CASE WHEN $5 > 0 THEN clock_timestamp() ELSE expired_at END
WHERE project_id = $1 AND id = $2 AND pending IS NULL
RETURNING id;

-- begin_batch --
-- `position` is stored again: it may have passed what matches nothing.
UPDATE subscriptions SET
    position = $3, pending = $4, pending_revision = $5, pending_spans = $6, batch_number = batch_number + 1,
    expired_spans = expired_spans + $7, pending_expired = $8,
    expired_at = CASE WHEN $7 > 0 THEN clock_timestamp() ELSE expired_at END
WHERE project_id = $1 AND id = $2 AND pending IS NULL
RETURNING batch_number;

-- end_batch --
UPDATE subscriptions SET
    position = pending, pending = NULL, pending_revision = NULL, through_at = $3, attempts = 0, failing_since = NULL,
    retry_at = NULL, delivered_spans = delivered_spans + $4, delivered_count = delivered_count + least($4 + $5, 1),
    delivered_at = CASE WHEN $4 + $5 > 0 THEN clock_timestamp() ELSE delivered_at END,
    rejected_spans = rejected_spans + $5,
    last_rejection = CASE WHEN $5 > 0 THEN $6 ELSE last_rejection END,
    last_rejection_at = CASE WHEN $5 > 0 THEN clock_timestamp() ELSE last_rejection_at END,
    expired_spans = expired_spans + $7, pending_expired = 0,
    expired_at = CASE WHEN $7 > 0 THEN clock_timestamp() ELSE expired_at END
WHERE project_id = $1 AND id = $2 AND pending IS NOT NULL
RETURNING id;
