-- add --
INSERT INTO leases (kind, id, project_id) SELECT kind, $1, $2 FROM unnest($3::text[]) AS kind;

-- lock --
-- In one order, so that two who lock several leases of one id do not wait for each other.
SELECT kind FROM leases WHERE id = $1 ORDER BY kind FOR UPDATE;

-- take_back --
UPDATE leases SET holder = NULL, expires_at = NULL, failures = 0, next_run = now() WHERE id = $1;

-- remove --
DELETE FROM leases WHERE id = $1;

-- remove_of_project --
DELETE FROM leases WHERE project_id = $1;

-- wake --
-- Not later than after `$3` seconds. A run that holds the lease goes on; the next one comes after it.
UPDATE leases SET next_run = least(next_run, clock_timestamp() + make_interval(secs => $3)) WHERE kind = $1 AND id = $2;

-- find --
-- A run that begins says in a moment when the next one is.
SELECT CASE WHEN next_run = 'infinity' THEN now() ELSE next_run END AS next_run,
    holder IS NOT NULL AND expires_at > now() AS is_running
FROM leases WHERE kind = $1 AND id = $2;

-- claim --
-- `$3`, `$4`: the kinds and projects that have their share of this process. While a run goes on, `next_run` is what
-- wakes the next one.
UPDATE leases SET holder = gen_random_uuid(), expires_at = now() + make_interval(secs => $1), next_run = 'infinity'
WHERE (id, kind) = (
    SELECT id, kind FROM leases AS due
    WHERE (holder IS NULL AND next_run <= now() OR holder IS NOT NULL AND expires_at < now())
    AND kind = ANY ($2::text[]) AND NOT EXISTS (
        SELECT FROM unnest($3::text[], $4::uuid[]) AS share (kind, project_id)
        WHERE share.kind = due.kind AND share.project_id = due.project_id
    )
    ORDER BY next_run, id LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING kind, id, project_id, holder, failures;

-- renew --
UPDATE leases SET expires_at = now() + make_interval(secs => $1) WHERE holder = ANY ($2::uuid[]) RETURNING holder;

-- hold --
SELECT holder FROM leases WHERE holder = $1 FOR UPDATE;

-- release --
-- `least` leaves out a null: such a run is the next one only if somebody has woken it.
UPDATE leases SET holder = NULL, expires_at = NULL, failures = 0, next_run = least(next_run, $2::timestamptz)
WHERE holder = $1;

-- fail --
UPDATE leases SET
    holder = NULL, expires_at = NULL, failures = failures + 1,
    next_run = least(next_run, now() + make_interval(secs => $2))
WHERE holder = $1;

-- give_back --
UPDATE leases SET holder = NULL, expires_at = NULL, next_run = now() WHERE holder = ANY ($1::uuid[]);
