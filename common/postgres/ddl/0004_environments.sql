-- A new project has the environments `development`, `staging` and `production` (`create_project` in `queries.sql`). Projects that were
-- made before get them here, unless they have an environment already.
WITH project AS (
    SELECT id FROM projects
    WHERE NOT EXISTS (SELECT FROM artifacts WHERE project_id = projects.id AND kind = 'environment')
), environment AS (
    INSERT INTO artifacts (project_id, kind, created_by, id, slug, name, flags)
    SELECT project.id, 'environment', '00000000-0000-7000-8000-000000000002',
        uuid_v7(now() + place * interval '1 microsecond'), slug, initcap(slug), '{}'
    FROM project CROSS JOIN unnest(ARRAY['development', 'staging', 'production']) WITH ORDINALITY AS wanted (slug, place)
    ON CONFLICT DO NOTHING
    RETURNING project_id, created_by, id, name
), variant AS (
    INSERT INTO variants (project_id, kind, created_by, artifact_id, slug, name, revisions_count)
    SELECT project_id, 'environment', created_by, id, right(gen_random_uuid()::text, 12), name, 2
    FROM environment
    RETURNING project_id, created_by, artifact_id, id, name
)
INSERT INTO revisions (project_id, kind, created_by, id, artifact_id, variant_id, version, slug, name, message)
SELECT project_id, 'environment', created_by, uuid_v7(now() + version * interval '1 microsecond'), artifact_id, id, version,
    right(gen_random_uuid()::text, 12), name, message
FROM variant CROSS JOIN (VALUES (0, 'Initial commit'), (1, NULL)) AS commit (version, message);
