-- artifact_columns --
id, slug, name, description, tags, meta, flags, folder_id,
created_at, created_by, updated_at, updated_by, deleted_at, deleted_by

-- variant_columns --
v.id, v.slug, v.name, v.description, v.tags, v.meta, v.artifact_id, a.slug AS artifact_slug, a.flags AS artifact_flags,
v.revisions_count, v.forked_from_variant_id, v.forked_from_revision_id,
v.created_at, v.created_by, v.updated_at, v.updated_by, v.deleted_at, v.deleted_by

-- revision_columns --
r.id, r.slug, r.name, r.description, r.tags, r.meta, r.artifact_id, a.slug AS artifact_slug, a.flags AS artifact_flags,
r.variant_id, v.slug AS variant_slug, r.version, r.message, r.flags, r.data,
r.created_at, r.created_by, r.updated_at, r.updated_by, r.deleted_at, r.deleted_by

-- variant_joins --
JOIN artifacts a ON a.project_id = $1 AND a.id = v.artifact_id

-- revision_joins --
JOIN variants v ON v.project_id = $1 AND v.id = r.variant_id
JOIN artifacts a ON a.project_id = $1 AND a.id = r.artifact_id

-- artifact_rows --
-- The rows of a layer, for pages: with the ids and slugs of the layers above, and the flags of the revision or the
-- head.
SELECT *, id AS artifact_id, slug AS artifact_slug, flags AS artifact_flags, (
    SELECT r.flags FROM revisions r
    WHERE r.project_id = a.project_id AND r.variant_id = (
        SELECT id FROM variants WHERE project_id = a.project_id AND artifact_id = a.id ORDER BY created_at, id LIMIT 1)
    ORDER BY r.version DESC LIMIT 1) AS revision_flags
FROM artifacts a

-- variant_rows --
SELECT v.*, v.id AS variant_id, v.slug AS variant_slug, a.slug AS artifact_slug, a.flags AS artifact_flags, (
    SELECT r.flags FROM revisions r
    WHERE r.project_id = v.project_id AND r.variant_id = v.id ORDER BY r.version DESC LIMIT 1) AS revision_flags
FROM variants v {variant_joins}

-- revision_rows --
SELECT r.*, r.flags AS revision_flags, a.slug AS artifact_slug, a.flags AS artifact_flags, v.slug AS variant_slug
FROM revisions r {revision_joins}

-- simpleartifact_rows --
SELECT a.*, a.id AS artifact_id, a.slug AS artifact_slug, a.flags AS artifact_flags,
    v.id AS variant_id, r.id AS revision_id, r.flags AS revision_flags, r.data
FROM artifacts a
CROSS JOIN LATERAL (
    SELECT id FROM variants
    WHERE project_id = a.project_id AND artifact_id = a.id ORDER BY created_at, id LIMIT 1) v
CROSS JOIN LATERAL (
    SELECT id, flags, data FROM revisions
    WHERE project_id = a.project_id AND variant_id = v.id ORDER BY version DESC LIMIT 1) r

-- create_artifact --
INSERT INTO artifacts (project_id, kind, created_by, id, slug, name, description, tags, meta, flags)
VALUES ($1, $2, $3, coalesce($4, uuid_v7(clock_timestamp())), $5, $6, $7, $8, $9, $10)
RETURNING {artifact_columns};

-- find_artifact --
SELECT {artifact_columns} FROM artifacts
WHERE project_id = $1 AND kind = $2 AND (id = $3::uuid OR slug = $4::text);

-- edit_artifact --
-- Null arguments keep their columns. An archived artifact is not edited.
UPDATE artifacts
SET name = coalesce($5, name), description = coalesce($6, description), tags = coalesce($7, tags),
    meta = coalesce($8, meta), flags = coalesce($9, flags), folder_id = coalesce($10, folder_id),
    updated_at = clock_timestamp(), updated_by = $3
WHERE project_id = $1 AND kind = $2 AND id = $4 AND deleted_at IS NULL
RETURNING {artifact_columns};

-- archive_artifact --
UPDATE artifacts
SET deleted_at = now(), deleted_by = $3, updated_at = now(), updated_by = $3
WHERE project_id = $1 AND kind = $2 AND id = $4
RETURNING {artifact_columns};

-- unarchive_artifact --
UPDATE artifacts
SET deleted_at = NULL, deleted_by = NULL, updated_at = now(), updated_by = $3
WHERE project_id = $1 AND kind = $2 AND id = $4
RETURNING {artifact_columns};

-- create_variant --
-- Returns no row if the artifact does not exist.
WITH v AS (
    INSERT INTO variants (project_id, kind, created_by, artifact_id, slug, name, description, tags, meta)
    SELECT project_id, kind, $3::uuid, id, $5, $6, $7, $8::jsonb, $9::json
    FROM artifacts WHERE project_id = $1 AND kind = $2 AND id = $4
    RETURNING *
)
SELECT {variant_columns} FROM v {variant_joins};

-- find_variant --
SELECT {variant_columns}
FROM variants v {variant_joins}
WHERE v.project_id = $1 AND v.kind = $2 AND (v.id = $3::uuid OR v.slug = $4::text);

-- default_variant --
-- The first variant of the artifact, archived or not.
SELECT {variant_columns}
FROM variants v {variant_joins}
WHERE v.project_id = $1 AND v.kind = $2 AND v.artifact_id = $3
ORDER BY v.created_at, v.id LIMIT 1;

-- edit_variant --
-- Replaces the header.
WITH v AS (
    UPDATE variants
    SET name = $5, description = $6, tags = $7, meta = $8, updated_at = clock_timestamp(), updated_by = $3
    WHERE project_id = $1 AND kind = $2 AND id = $4
    RETURNING *
)
SELECT {variant_columns} FROM v {variant_joins};

-- archive_variant --
-- Archives its live revisions too, and marks them, so that unarchiving restores exactly these.
WITH v AS (
    UPDATE variants
    SET deleted_at = now(), deleted_by = $3, updated_at = now(), updated_by = $3
    WHERE project_id = $1 AND kind = $2 AND id = $4
    RETURNING *
), gone AS (
    UPDATE revisions r
    SET deleted_at = now(), deleted_by = $3, updated_at = now(), updated_by = $3, archived_with_variant = true
    FROM v
    WHERE r.project_id = $1 AND r.variant_id = v.id AND r.deleted_at IS NULL
)
SELECT {variant_columns} FROM v {variant_joins};

-- unarchive_variant --
WITH v AS (
    UPDATE variants
    SET deleted_at = NULL, deleted_by = NULL, updated_at = now(), updated_by = $3
    WHERE project_id = $1 AND kind = $2 AND id = $4
    RETURNING *
), back AS (
    UPDATE revisions r
    SET deleted_at = NULL, deleted_by = NULL, updated_at = now(), updated_by = $3, archived_with_variant = false
    FROM v
    WHERE r.project_id = $1 AND r.variant_id = v.id AND r.archived_with_variant
)
SELECT {variant_columns} FROM v {variant_joins};

-- commit --
-- The row lock of the variant assigns the version. Returns no row if the variant does not exist, belongs to another
-- artifact than $5, has another head than $6, or has a revision although $7 says that this is the first. The base is
-- compared by its version, which is in the locked row: this commit sees what another one wrote while it waited for the
-- lock.
WITH v AS (
    UPDATE variants
    SET revisions_count = revisions_count + 1
    WHERE project_id = $1 AND kind = $2 AND id = $4
        AND ($5::uuid IS NULL OR artifact_id = $5)
        AND ($6::uuid IS NULL OR revisions_count = (
            SELECT base.version + 1 FROM revisions base
            WHERE base.project_id = $1 AND base.variant_id = $4 AND base.id = $6))
        AND (NOT $7::boolean OR revisions_count = 0)
    RETURNING id, slug, artifact_id, revisions_count - 1 AS version
), r AS (
    INSERT INTO revisions (
        project_id, kind, created_by, artifact_id, variant_id, version,
        slug, name, description, tags, meta, message, flags, data)
    SELECT $1, $2, $3::uuid, v.artifact_id, v.id, v.version,
        $8, $9, $10, $11::jsonb, $12::json, $13, $14::jsonb, $15::json
    FROM v
    RETURNING *
)
SELECT {revision_columns}
FROM r JOIN v ON v.id = r.variant_id JOIN artifacts a ON a.project_id = $1 AND a.id = r.artifact_id;

-- lock_variant --
-- Prevents other commits on the variant until the transaction ends.
SELECT id FROM variants WHERE project_id = $1 AND kind = $2 AND id = $3 FOR UPDATE;

-- fork_variant --
-- Copies the live revisions of the source up to version $5 to a new variant of the same artifact, with versions from 0
-- and ids in the order of versions. Slugs of forks of forks stop growing before an index could not hold them. Returns
-- no row if there is nothing to copy.
WITH source AS (
    SELECT id, artifact_id FROM variants WHERE project_id = $1 AND kind = $2 AND id = $4
), lineage AS (
    SELECT r.*, row_number() OVER (ORDER BY r.version) - 1 AS new_version
    FROM revisions r JOIN source ON r.variant_id = source.id
    WHERE r.project_id = $1 AND r.version <= $5 AND r.deleted_at IS NULL
), v AS (
    INSERT INTO variants (
        project_id, kind, created_by, artifact_id, slug, name, description, tags, meta,
        revisions_count, forked_from_variant_id, forked_from_revision_id)
    SELECT $1, $2, $3::uuid, source.artifact_id, $6, $7, $8, $9::jsonb, $10::json,
        (SELECT count(*) FROM lineage), source.id, (SELECT id FROM lineage ORDER BY version DESC LIMIT 1)
    FROM source
    WHERE EXISTS (SELECT FROM lineage)
    RETURNING *
), copied AS (
    INSERT INTO revisions (
        project_id, kind, created_by, id, artifact_id, variant_id, version,
        slug, name, description, tags, meta, message, flags, data)
    SELECT $1, $2, $3::uuid, uuid_v7(now() + lineage.new_version * interval '1 microsecond'), v.artifact_id, v.id,
        lineage.new_version,
        left(lineage.slug, 2500) || '_' || replace(v.id::text, '-', ''),
        lineage.name, lineage.description, lineage.tags, lineage.meta, lineage.message, lineage.flags, lineage.data
    FROM lineage CROSS JOIN v
)
SELECT {variant_columns} FROM v {variant_joins};

-- edit_revision --
-- Replaces the header; the data stays.
WITH edited AS (
    UPDATE revisions
    SET name = $5, description = $6, tags = $7, meta = $8, updated_at = clock_timestamp(), updated_by = $3
    WHERE project_id = $1 AND kind = $2 AND id = $4
    RETURNING *
)
SELECT {revision_columns}
FROM edited r {revision_joins};

-- archive_revision --
-- Archived by itself: unarchiving its variant does not restore it.
WITH archived AS (
    UPDATE revisions
    SET deleted_at = now(), deleted_by = $3, updated_at = now(), updated_by = $3, archived_with_variant = false
    WHERE project_id = $1 AND kind = $2 AND id = $4
    RETURNING *
)
SELECT {revision_columns}
FROM archived r {revision_joins};

-- unarchive_revision --
WITH restored AS (
    UPDATE revisions
    SET deleted_at = NULL, deleted_by = NULL, updated_at = now(), updated_by = $3, archived_with_variant = false
    WHERE project_id = $1 AND kind = $2 AND id = $4
    RETURNING *
)
SELECT {revision_columns}
FROM restored r {revision_joins};

-- find_revision --
-- By id or slug.
SELECT {revision_columns}
FROM revisions r {revision_joins}
WHERE r.project_id = $1 AND r.kind = $2 AND (r.id = $3::uuid OR r.slug = $4::text);

-- revision_of_variant --
-- The revision of version $4, else the head, which is the highest version, archived or not.
SELECT {revision_columns}
FROM revisions r {revision_joins}
WHERE r.project_id = $1 AND r.kind = $2 AND r.variant_id = $3 AND ($4::integer IS NULL OR r.version = $4)
ORDER BY r.version DESC LIMIT 1;

-- revision_of_artifact --
-- The same on the first variant of the artifact, in one statement.
SELECT {revision_columns}
FROM revisions r {revision_joins}
WHERE r.project_id = $1 AND r.kind = $2 AND ($4::integer IS NULL OR r.version = $4) AND r.variant_id = (
    SELECT id FROM variants WHERE project_id = $1 AND kind = $2 AND artifact_id = $3 ORDER BY created_at, id LIMIT 1)
ORDER BY r.version DESC LIMIT 1;

-- log --
-- Live revisions of a variant, newest first, from version $4 back.
SELECT {revision_columns}
FROM revisions r {revision_joins}
WHERE r.project_id = $1 AND r.kind = $2 AND r.variant_id = $3 AND r.version <= $4 AND r.deleted_at IS NULL
ORDER BY r.version DESC LIMIT $5;

-- embedded --
-- Parts of revisions. The parallel arrays $2 to $12 name them. A revision is found by the id or slug of the revision;
-- else of the variant, else of the first variant of the artifact, by version, by default the head. A revision slug with
-- a version names, in this order, the revision with both, the revision '<slug>-<version>', or that version of the first
-- variant of the artifact with that slug. A revision must match everything else that is given. Its part is at the first
-- path of $11, arrays of steps in JSON, that leads to something; with $12 also where a path leads to an embedded
-- reference. Of a value that does not fit into $13 bytes after the others only the size is returned.
WITH wanted AS (
    SELECT * FROM unnest(
        $2::text[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[], $10::integer[],
        $11::text[], $12::boolean[]
    ) WITH ORDINALITY AS each (
        kind, artifact_id, variant_id, revision_id, artifact_slug, variant_slug, revision_slug, version_text, version,
        paths, leads_through, place)
), named AS (
    SELECT w.*, revision.id AS found_id, revision.rank
    FROM wanted w
    LEFT JOIN LATERAL (
        SELECT v.id FROM variants v WHERE v.project_id = $1 AND v.id = w.variant_id
        UNION ALL
        SELECT v.id FROM variants v
        WHERE v.project_id = $1 AND v.kind = w.kind AND v.slug = w.variant_slug AND w.variant_id IS NULL
        UNION ALL
        (SELECT v.id FROM variants v
        WHERE v.project_id = $1 AND v.artifact_id = coalesce(
                w.artifact_id,
                (SELECT a.id FROM artifacts a WHERE a.project_id = $1 AND a.kind = w.kind AND a.slug = w.artifact_slug))
            AND w.variant_id IS NULL AND w.variant_slug IS NULL
        ORDER BY v.created_at, v.id LIMIT 1)
    ) variant ON w.revision_id IS NULL AND w.revision_slug IS NULL
    LEFT JOIN LATERAL (
        SELECT v.id FROM variants v JOIN artifacts a ON a.project_id = $1 AND a.id = v.artifact_id
        WHERE v.project_id = $1 AND a.kind = w.kind AND a.slug = w.revision_slug
        ORDER BY v.created_at, v.id LIMIT 1
    ) of_artifact ON w.revision_id IS NULL AND w.version IS NOT NULL
    CROSS JOIN LATERAL (
        SELECT r.id, 1 AS rank FROM revisions r WHERE r.project_id = $1 AND r.id = w.revision_id
        UNION ALL
        SELECT r.id, 1 FROM revisions r
        WHERE r.project_id = $1 AND r.kind = w.kind AND r.slug = w.revision_slug AND w.revision_id IS NULL
        UNION ALL
        SELECT r.id, 2 FROM revisions r
        WHERE r.project_id = $1 AND r.kind = w.kind AND r.slug = w.revision_slug || '-' || w.version_text
            AND w.revision_id IS NULL
        UNION ALL
        SELECT r.id, 3 FROM revisions r
        WHERE r.project_id = $1 AND r.variant_id = of_artifact.id AND r.version = w.version
        UNION ALL
        (SELECT r.id, 1 FROM revisions r
        WHERE r.project_id = $1 AND r.variant_id = variant.id AND (w.version IS NULL OR r.version = w.version)
        ORDER BY r.version DESC LIMIT 1)
    ) revision
), found AS (
    SELECT DISTINCT ON (n.place) n.place, n.paths::json AS paths, n.leads_through, r.data, a.id AS artifact_id,
        a.slug AS artifact_slug, v.id AS variant_id, v.slug AS variant_slug, r.id, r.slug, r.version
    FROM named n
    JOIN revisions r ON r.project_id = $1 AND r.id = n.found_id AND r.kind = n.kind
    JOIN variants v ON v.project_id = $1 AND v.id = r.variant_id
    JOIN artifacts a ON a.project_id = $1 AND a.id = r.artifact_id
    WHERE coalesce(n.artifact_id = a.id, true) AND coalesce(n.artifact_slug = a.slug, true)
        AND coalesce(n.variant_id = v.id, true) AND coalesce(n.variant_slug = v.slug, true)
        AND coalesce(n.revision_id = r.id, true)
        AND (n.rank > 1 OR coalesce(n.revision_slug = r.slug, true) AND coalesce(n.version = r.version, true))
    ORDER BY n.place, n.rank
), reached AS (
    SELECT f.place, f.artifact_id, f.artifact_slug, f.variant_id, f.variant_slug, f.id, f.slug, f.version,
        coalesce(direct.choice, through.choice) AS choice,
        coalesce(direct.steps_count, through.steps_count) AS steps_count,
        coalesce(direct.value, through.value)::text AS value
    FROM found f
    LEFT JOIN LATERAL (
        SELECT * FROM (
            SELECT choice, cardinality(steps) AS steps_count, f.data #> steps AS value
            FROM json_array_elements(f.paths) WITH ORDINALITY AS path (names, choice),
                LATERAL (SELECT ARRAY(SELECT json_array_elements_text(path.names))) AS each (steps)
            OFFSET 0
        ) there WHERE value IS NOT NULL ORDER BY choice LIMIT 1
    ) direct ON true
    LEFT JOIN LATERAL (
        SELECT choice, steps_count, f.data #> steps[:steps_count] AS value
        FROM json_array_elements(f.paths) WITH ORDINALITY AS path (names, choice),
            LATERAL (SELECT ARRAY(SELECT json_array_elements_text(path.names))) AS each (steps),
            LATERAL generate_series(1, cardinality(steps) - 1) AS steps_count
        WHERE direct.choice IS NULL AND f.leads_through AND octet_length(f.data::text) <= $13::bigint
            AND f.data #> (steps[:steps_count] || '@ag.embed'::text) IS NOT NULL
        ORDER BY choice, steps_count LIMIT 1
    ) through ON true
    OFFSET 0
), measured AS (
    SELECT *, octet_length(value) AS bytes_count, sum(octet_length(value)) OVER (ORDER BY place) AS bytes_so_far
    FROM reached
)
SELECT place, artifact_id, artifact_slug, variant_id, variant_slug, id, slug, version, choice::integer, steps_count,
    bytes_count, CASE WHEN bytes_so_far <= $13::bigint THEN value END AS value
FROM measured
ORDER BY place;
