-- create_record_of_migrations --
CREATE TABLE IF NOT EXISTS schema_migrations (
    number     integer     PRIMARY KEY,
    name       text        NOT NULL,
    sha256     text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- applied_migrations --
SELECT number, sha256 FROM schema_migrations;

-- record_migration --
INSERT INTO schema_migrations (number, name, sha256) VALUES ($1, $2, $3);

-- ensure_secret --
-- The first process decides the value.
INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING;

-- find_secret --
SELECT value FROM secrets WHERE name = $1;

-- project_exists --
SELECT 1 FROM projects WHERE id = $1;

-- create_project --
-- With the environments $3, each with a variant and two revisions, like those of `POST /simple/environments/`; $4 is
-- their author.
-- Does nothing and returns no row if the id exists.
WITH project AS (
    INSERT INTO projects (id, name) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING RETURNING id, name, created_at
), environment AS (
    INSERT INTO artifacts (project_id, kind, created_by, id, slug, name, flags)
    SELECT project.id, 'environment', $4::uuid, uuid_v7(now() + place * interval '1 microsecond'),
        slug, initcap(slug), '{}'
    FROM project CROSS JOIN unnest($3::text[]) WITH ORDINALITY AS wanted (slug, place)
    RETURNING project_id, id, name
), variant AS (
    INSERT INTO variants (project_id, kind, created_by, artifact_id, slug, name, revisions_count)
    SELECT project_id, 'environment', $4::uuid, id, right(gen_random_uuid()::text, 12), name, 2
    FROM environment
    RETURNING project_id, artifact_id, id, name
), revision AS (
    INSERT INTO revisions (project_id, kind, created_by, id, artifact_id, variant_id, version, slug, name, message)
    SELECT project_id, 'environment', $4::uuid, uuid_v7(now() + version * interval '1 microsecond'), artifact_id, id,
        version, right(gen_random_uuid()::text, 12), name, message
    FROM variant CROSS JOIN (VALUES (0, 'Initial commit'), (1, NULL)) AS commit (version, message)
)
SELECT id, name, created_at FROM project;

-- find_project --
SELECT id, name, created_at FROM projects WHERE id = $1;

-- delete_project --
-- With everything in Postgres that belongs to it. A run of retention removes its spans, and begins now.
WITH deleted AS (
    DELETE FROM projects WHERE id = $1 RETURNING id, name, created_at
), remembered AS (
    INSERT INTO deleted_projects (id) SELECT id FROM deleted
    ON CONFLICT (id) DO UPDATE SET deleted_at = now()
), soon AS (
    UPDATE leases SET next_run = least(next_run, now()) FROM deleted WHERE kind = 'retention'
)
SELECT id, name, created_at FROM deleted;

-- projects_named --
SELECT id, name, created_at FROM projects WHERE name = $1 ORDER BY created_at, id;

-- ensure_user --
-- The update changes nothing; it makes the statement return an existing row.
INSERT INTO users (id, email) VALUES ($1, $2) ON CONFLICT (email) DO UPDATE SET email = excluded.email
RETURNING id, email, created_at;

-- users_of_project --
SELECT id, email, created_at FROM users WHERE id IN (SELECT user_id FROM api_keys WHERE project_id = $1)
ORDER BY created_at, id LIMIT $2;

-- list_projects --
SELECT id, name, created_at FROM projects ORDER BY created_at, id;
