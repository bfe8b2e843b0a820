-- shown_columns --
id, project_id, user_id, name, prefix, scopes, requests_per_s, concurrent_max, created_at, expires_at,
revoked_at, last_used_at

-- in_force --
revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())

-- create_key --
-- Returns no row if the project does not exist.
INSERT INTO api_keys (
    id, project_id, user_id, name, prefix, secret_hash, scopes, requests_per_s, concurrent_max, expires_at
)
SELECT $1, id, $6, $3, $4, $5, $7, $8, $9, $10 FROM projects WHERE id = $2
RETURNING {shown_columns};

-- lock_keys_of_project --
-- Transactions that add keys to a project take turns.
SELECT FROM projects WHERE id = $1 FOR NO KEY UPDATE;

-- count_keys_in_force --
SELECT count(*) AS n FROM api_keys WHERE project_id = $1 AND {in_force};

-- forget_ended_keys --
-- All but the $2 that ended last.
DELETE FROM api_keys WHERE id IN (
    SELECT id FROM api_keys WHERE project_id = $1 AND NOT ({in_force})
    ORDER BY least(revoked_at, expires_at) DESC, id OFFSET $2
);

-- list_keys --
SELECT {shown_columns}
FROM api_keys WHERE project_id = $1 ORDER BY created_at, id;

-- rotate_key --
-- A new key like $2, which then expires after $3; neither after $7. Returns no row if the key is not in force in this
-- project, or if it was replaced: its life was cut short then, and the new key would inherit that.
WITH old AS (
    SELECT * FROM api_keys
    WHERE project_id = $1 AND id = $2 AND {in_force} AND replaced_by IS NULL
    FOR UPDATE
), ending AS (
    UPDATE api_keys SET expires_at = least(old.expires_at, now() + $3::interval, $7), replaced_by = $4
    FROM old WHERE api_keys.id = old.id
)
INSERT INTO api_keys (
    id, project_id, user_id, name, prefix, secret_hash, scopes, requests_per_s, concurrent_max, expires_at
)
SELECT $4, project_id, user_id, name, $5, $6, scopes, requests_per_s, concurrent_max,
    CASE WHEN expires_at IS NOT NULL THEN least(now() + (expires_at - created_at), $7) END
FROM old
RETURNING {shown_columns};

-- find_replacement --
SELECT replaced_by FROM api_keys WHERE project_id = $1 AND id = $2 AND {in_force} AND replaced_by IS NOT NULL;

-- revoke_key --
-- Revoking again keeps the first time. Returns no row if the key is not of this project.
UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE project_id = $1 AND id = $2
RETURNING {shown_columns};

-- find_key --
SELECT
    id, project_id, user_id, secret_hash, scopes, requests_per_s, concurrent_max, ({in_force}) AS is_in_force,
    coalesce(extract(epoch FROM expires_at - now())::float8, 'infinity') AS expires_in_s
FROM api_keys WHERE prefix = $1;

-- find_ended_keys --
SELECT id FROM unnest($1::uuid[]) AS running (id)
WHERE id NOT IN (SELECT id FROM api_keys WHERE id = ANY($1) AND {in_force});

-- store_uses_of_keys --
UPDATE api_keys SET last_used_at = greatest(last_used_at, used.at)
FROM unnest($1::uuid[], $2::timestamptz[]) AS used (id, at) WHERE api_keys.id = used.id;

-- another_project_has_a_key --
SELECT EXISTS (
    SELECT FROM api_keys
    WHERE project_id != $1 AND {in_force}
) AS is_so;
