-- UUIDs of version 7 (RFC 9562 §5.7): milliseconds, then the microseconds as fraction in `rand_a`, then chance. Ids that are made
-- one after another in one row lock stand in that order.
CREATE FUNCTION uuid_v7(moment timestamptz) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(
        int8send(((us / 1000) << 16) | 28672 | ((us % 1000) * 4096 / 1000)) || substring(uuid_send(gen_random_uuid()) FROM 9),
        'hex'
    )::uuid
    FROM (SELECT (extract(epoch FROM moment) * 1000000)::bigint AS us) AS clock
$$;

-- What has a history: applications, saved queries, environments. Like a repository; `kind` says what it is one of.
CREATE TABLE artifacts (
    project_id  uuid        NOT NULL REFERENCES projects (id),
    kind        text        NOT NULL,
    id          uuid        NOT NULL DEFAULT uuid_v7(clock_timestamp()),
    slug        text        NOT NULL,
    name        text,
    description text,
    flags       jsonb       NOT NULL,
    tags        jsonb,
    meta        json,
    folder_id   uuid,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by  uuid        NOT NULL,
    updated_at  timestamptz,
    updated_by  uuid,
    deleted_at  timestamptz,
    deleted_by  uuid,
    PRIMARY KEY (project_id, id),
    CONSTRAINT artifacts_slug_unique UNIQUE (project_id, kind, slug)
);

-- Like a branch. `revisions_count` is the next version: its row lock is what makes versions consecutive.
CREATE TABLE variants (
    project_id              uuid        NOT NULL,
    kind                    text        NOT NULL,
    id                      uuid        NOT NULL DEFAULT uuid_v7(clock_timestamp()),
    artifact_id             uuid        NOT NULL,
    slug                    text        NOT NULL,
    name                    text,
    description             text,
    tags                    jsonb,
    meta                    json,
    revisions_count         integer     NOT NULL DEFAULT 0,
    forked_from_variant_id  uuid,
    forked_from_revision_id uuid,
    created_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by              uuid        NOT NULL,
    updated_at              timestamptz,
    updated_by              uuid,
    deleted_at              timestamptz,
    deleted_by              uuid,
    PRIMARY KEY (project_id, id),
    FOREIGN KEY (project_id, artifact_id) REFERENCES artifacts (project_id, id),
    CONSTRAINT variants_slug_unique UNIQUE (project_id, kind, slug)
);
CREATE INDEX variants_of_artifact ON variants (project_id, artifact_id, created_at, id);

-- Like a commit: never changed but for what is written about it. `archived_with_variant` is what unarchiving the variant restores.
CREATE TABLE revisions (
    project_id            uuid        NOT NULL,
    kind                  text        NOT NULL,
    id                    uuid        NOT NULL DEFAULT uuid_v7(clock_timestamp()),
    artifact_id           uuid        NOT NULL,
    variant_id            uuid        NOT NULL,
    version               integer     NOT NULL,
    slug                  text        NOT NULL,
    name                  text,
    description           text,
    message               text,
    flags                 jsonb,
    tags                  jsonb,
    meta                  json,
    data                  json,
    archived_with_variant boolean     NOT NULL DEFAULT false,
    created_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by            uuid        NOT NULL,
    updated_at            timestamptz,
    updated_by            uuid,
    deleted_at            timestamptz,
    deleted_by            uuid,
    PRIMARY KEY (project_id, id),
    FOREIGN KEY (project_id, artifact_id) REFERENCES artifacts (project_id, id),
    FOREIGN KEY (project_id, variant_id) REFERENCES variants (project_id, id),
    CONSTRAINT revisions_slug_unique UNIQUE (project_id, kind, slug),
    CONSTRAINT revisions_version_unique UNIQUE (project_id, variant_id, version)
);
CREATE INDEX revisions_of_artifact ON revisions (project_id, artifact_id);
