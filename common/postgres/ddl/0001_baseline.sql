-- Projects separate tenants. `migrate` inserts the default project.
CREATE TABLE projects (
    id         uuid        PRIMARY KEY,
    name       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Users are recorded as the authors of changes. They grant nothing: the project of a key decides what a request may
-- see. The user without an address is the author of requests without authentication, and of keys without a user.
CREATE TABLE users (
    id         uuid        PRIMARY KEY,
    email      text        CONSTRAINT users_email_unique UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO users (id) VALUES ('00000000-0000-7000-8000-000000000002');

-- A key is shown once, as `<prefix>.<secret>`. Only a hash of the secret is stored. The secret is 256 random bits that
-- nobody can guess, so a plain SHA-256 is enough.
CREATE TABLE api_keys (
    id          uuid        PRIMARY KEY,
    project_id  uuid        NOT NULL REFERENCES projects (id),
    user_id     uuid        NOT NULL REFERENCES users (id),
    name        text        NOT NULL,
    prefix      text        NOT NULL CONSTRAINT api_keys_prefix_unique UNIQUE,
    secret_hash bytea       NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    revoked_at  timestamptz
);
CREATE INDEX api_keys_of_project ON api_keys (project_id, created_at);

-- Random bytes that all processes of an installation share.
CREATE TABLE secrets (
    name  text  PRIMARY KEY,
    value bytea NOT NULL
);

-- UUIDs of version 7 (RFC 9562 §5.7): milliseconds, then the microseconds as a fraction in `rand_a`, then random bits.
-- Ids that are created one after another under one row lock are in that order.
CREATE FUNCTION uuid_v7(moment timestamptz) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(
        int8send(((us / 1000) << 16) | 28672 | ((us % 1000) * 4096 / 1000))
            || substring(uuid_send(gen_random_uuid()) FROM 9),
        'hex'
    )::uuid
    FROM (SELECT (extract(epoch FROM moment) * 1000000)::bigint AS us) AS clock
$$;

-- What has a history: an application, a saved query or an environment, by `kind`. Like a repository.
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

-- Like a branch. `revisions_count` is the next version; the lock of the row makes versions consecutive.
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

-- Like a commit. Only name, description, tags and metadata change. Unarchiving a variant restores the revisions that
-- have `archived_with_variant`.
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
