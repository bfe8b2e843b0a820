-- begin_writes --
-- One entry without a status for each element; returns their ids in that order. Unless $10, the commit does not wait
-- for the disk.
WITH waiting AS (
    SELECT set_config(
        'synchronous_commit', CASE WHEN $10::boolean THEN current_setting('synchronous_commit') ELSE 'off' END, true)
), given AS (
    SELECT nextval('audit_entries_id_seq') AS id, each.*
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[]
    ) WITH ORDINALITY AS each (
        project_id, actor, actor_name, key_id, user_id, address, operation, request_id, entities, place
    )
), inserted AS (
    INSERT INTO audit_entries (
        id, kind, project_id, actor, actor_name, key_id, user_id, address, operation, request_id, entities
    )
    SELECT given.id, 'write', given.project_id, given.actor, coalesce(given.actor_name, api_keys.name), given.key_id,
        given.user_id, given.address, given.operation, given.request_id, given.entities::jsonb
    FROM given LEFT JOIN api_keys ON api_keys.id = given.key_id
)
SELECT given.id FROM given CROSS JOIN waiting ORDER BY given.place;

-- end_writes --
-- An entry that has been deleted meanwhile is left out, and one that has a status keeps it.
UPDATE audit_entries SET
    status = ended.status,
    entities = CASE WHEN ended.entities IS NULL THEN audit_entries.entities ELSE ended.entities::jsonb END
FROM unnest($1::bigint[], $2::smallint[], $3::text[]) AS ended (id, status, entities)
WHERE audit_entries.id = ended.id AND audit_entries.status IS NULL;

-- add_refusals --
-- $8 and $9: how many seconds ago the first and the last of an entry were refused.
INSERT INTO audit_entries (
    kind, project_id, actor, actor_name, key_id, user_id, address, operation, status, requests_count, at, until
)
SELECT 'refusal', given.project_id, given.actor, api_keys.name, given.key_id, given.user_id, given.address,
    given.operation, given.status, given.requests_count, clock_timestamp() - given.first_s * interval '1 second',
    clock_timestamp() - given.last_s * interval '1 second'
FROM unnest(
    $1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::smallint[], $8::float8[],
    $9::float8[], $10::bigint[]
) AS given (project_id, actor, key_id, user_id, address, operation, status, first_s, last_s, requests_count)
LEFT JOIN api_keys ON api_keys.id = given.key_id;

-- trim_project --
-- Returns how many of the oldest were deleted, at most $4: all but the newest $3 go.
WITH surplus AS (
    SELECT id FROM audit_entries WHERE project_id = $1 AND kind = $2 AND id <= (
        SELECT id FROM audit_entries WHERE project_id = $1 AND kind = $2 ORDER BY id DESC OFFSET $3 LIMIT 1
    ) ORDER BY id LIMIT $4
), deleted AS (
    DELETE FROM audit_entries WHERE id IN (SELECT id FROM surplus) RETURNING 1
)
SELECT count(*) AS n FROM deleted;

-- trim_age --
WITH expired AS (
    SELECT id FROM audit_entries WHERE at < now() - $1 * interval '1 day' ORDER BY at LIMIT $2
), deleted AS (
    DELETE FROM audit_entries WHERE id IN (SELECT id FROM expired) RETURNING 1
)
SELECT count(*) AS n FROM deleted;

-- read_entries --
SELECT id, kind, project_id, at, until, requests_count, actor, actor_name, key_id, user_id, address, operation, status,
    request_id, entities
FROM audit_entries WHERE {conditions} ORDER BY id DESC LIMIT {limit};
