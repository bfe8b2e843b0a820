-- Projects separate tenants. `migrate` inserts the default project. A project is deleted with everything that belongs
-- to it: each table of a project refers to `projects` with ON DELETE CASCADE, which
-- tests/integration/test_project_deletion.py checks for every table that has a `project_id`.
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
-- nobody can guess, so a plain SHA-256 is enough. `scopes` and the columns after it say what a key may do, how much
-- and for how long. `replaced_by` is the key that replaced this one by a rotation; it stays when that key is forgotten.
CREATE TABLE api_keys (
    id               uuid             PRIMARY KEY,
    project_id       uuid             NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    user_id          uuid             NOT NULL REFERENCES users (id),
    name             text             NOT NULL,
    prefix           text             NOT NULL CONSTRAINT api_keys_prefix_unique UNIQUE,
    secret_hash      bytea            NOT NULL,
    created_at       timestamptz      NOT NULL DEFAULT now(),
    revoked_at       timestamptz,
    scopes           text[]           NOT NULL,
    requests_per_s   double precision CHECK (requests_per_s > 0),
    concurrent_max   integer          CHECK (concurrent_max > 0),
    expires_at       timestamptz,
    last_used_at     timestamptz,
    replaced_by      uuid
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
    project_id  uuid        NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
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
-- Lists of applications and of evaluators, however few they are among the others.
CREATE INDEX artifacts_applications ON artifacts (project_id, id) WHERE flags @> '{"is_application": true}';
CREATE INDEX artifacts_evaluators ON artifacts (project_id, id) WHERE flags @> '{"is_evaluator": true}';

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
    FOREIGN KEY (project_id, artifact_id) REFERENCES artifacts (project_id, id) ON DELETE CASCADE,
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
    FOREIGN KEY (project_id, artifact_id) REFERENCES artifacts (project_id, id) ON DELETE CASCADE,
    FOREIGN KEY (project_id, variant_id) REFERENCES variants (project_id, id) ON DELETE CASCADE,
    CONSTRAINT revisions_slug_unique UNIQUE (project_id, kind, slug),
    CONSTRAINT revisions_version_unique UNIQUE (project_id, variant_id, version)
);
CREATE INDEX revisions_of_artifact ON revisions (project_id, artifact_id);

-- A subscription delivers the spans that a filter matches to a target. `position` is where its reader is in the feed;
-- it is written only after the target has acknowledged. While a batch is being delivered, `pending` is the position
-- after it, so that every retry delivers the same batch under the same number.
CREATE TABLE subscriptions (
    project_id       uuid        NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    id               uuid        NOT NULL DEFAULT uuid_v7(clock_timestamp()),
    slug             text        NOT NULL,
    name             text,
    feed             text        NOT NULL DEFAULT 'spans' CHECK (feed IN ('spans', 'settled_traces')),
    selection        json        NOT NULL,
    target           json        NOT NULL,
    secrets          json        NOT NULL,
    status           text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused')),
    reason           text,
    position         bytea       NOT NULL, -- in the feed
    through_at       timestamptz NOT NULL,
    batch_number     bigint      NOT NULL DEFAULT 0,
    pending          bytea,
    pending_revision uuid,
    pending_spans    integer     NOT NULL DEFAULT 0,
    attempts         integer     NOT NULL DEFAULT 0,
    failing_since    timestamptz,
    retry_at         timestamptz,
    last_error       text,
    last_error_at    timestamptz,
    delivered_spans  bigint      NOT NULL DEFAULT 0,
    delivered_count  bigint      NOT NULL DEFAULT 0,
    delivered_at     timestamptz,
    skipped          json        NOT NULL DEFAULT '[]',
    -- What the target acknowledged and rejected: it is not delivered again.
    rejected_spans    bigint     NOT NULL DEFAULT 0,
    last_rejection    text,
    last_rejection_at timestamptz,
    -- Spans that matched and were deleted before they were delivered. `pending_expired`: those between the borders of
    -- the batch that is being delivered, counted when it was read.
    expired_spans    bigint      NOT NULL DEFAULT 0,
    expired_at       timestamptz,
    pending_expired  integer     NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by       uuid        NOT NULL,
    updated_at       timestamptz,
    updated_by       uuid,
    PRIMARY KEY (project_id, id),
    CONSTRAINT subscriptions_slug_unique UNIQUE (project_id, slug)
);

-- An alert watches a measure of spans. It is evaluated by the process that holds its lease, and its messages are
-- delivered by the process that holds the lease of its messages.
CREATE TABLE alerts (
    project_id       uuid             NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    id               uuid             NOT NULL DEFAULT uuid_v7(clock_timestamp()),
    slug             text             NOT NULL,
    name             text,
    -- The measure, the bound, the window, the period and the groups.
    definition       json             NOT NULL,
    every_s          double precision NOT NULL,
    selection        json             NOT NULL,
    target           json             NOT NULL,
    secrets          json             NOT NULL,
    status           text             NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused')),
    reason           text,
    next_at          timestamptz      NOT NULL DEFAULT clock_timestamp(),
    evaluated_at     timestamptz,
    groups_count     integer          NOT NULL DEFAULT 0,
    left_out_count   integer          NOT NULL DEFAULT 0,
    -- The number of the newest message; together with the id of the alert it is the id of the message.
    message_number   bigint           NOT NULL DEFAULT 0,
    waiting_count    integer          NOT NULL DEFAULT 0,
    attempts         integer          NOT NULL DEFAULT 0,
    failing_since    timestamptz,
    retry_at         timestamptz,
    delivered_count  bigint           NOT NULL DEFAULT 0,
    delivered_at     timestamptz,
    last_error       text,
    last_error_at    timestamptz,
    created_at       timestamptz      NOT NULL DEFAULT clock_timestamp(),
    created_by       uuid             NOT NULL,
    updated_at       timestamptz,
    updated_by       uuid,
    PRIMARY KEY (project_id, id),
    CONSTRAINT alerts_slug_unique UNIQUE (project_id, slug)
);

-- The groups that are in breach. `key` is a hash of the values by which the spans are grouped.
CREATE TABLE alert_breaches (
    project_id uuid             NOT NULL,
    alert_id   uuid             NOT NULL,
    key        bytea            NOT NULL,
    by         json             NOT NULL,
    value      double precision NOT NULL,
    since      timestamptz      NOT NULL,
    PRIMARY KEY (project_id, alert_id, key),
    FOREIGN KEY (project_id, alert_id) REFERENCES alerts (project_id, id) ON DELETE CASCADE
);

-- Messages that the target has not acknowledged, in the order of their numbers.
CREATE TABLE alert_messages (
    project_id uuid   NOT NULL,
    alert_id   uuid   NOT NULL,
    number     bigint NOT NULL,
    kind       text   NOT NULL,
    data       json   NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, alert_id, number),
    FOREIGN KEY (project_id, alert_id) REFERENCES alerts (project_id, id) ON DELETE CASCADE
);

-- The spans of a deleted project are deleted by runs of retention, until no worker can store more of them.
CREATE TABLE deleted_projects (
    id         uuid        PRIMARY KEY,
    deleted_at timestamptz NOT NULL DEFAULT now()
);

-- What a project keeps. A rule that is null does not apply.
CREATE TABLE retention_rules (
    project_id   uuid             PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    max_age_days double precision,
    max_bytes    bigint,
    updated_at   timestamptz      NOT NULL DEFAULT now(),
    updated_by   uuid             NOT NULL
);

-- What runs have deleted of a project. It stays when the rules are removed. `before_us`: every trace that runs have
-- deleted began before it, in microseconds since 1970, so only such rows are freed. `freed_at`: when the last
-- check found no row to free.
CREATE TABLE retention_results (
    project_id    uuid        PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    before_us     bigint      NOT NULL,
    freed_at      timestamptz NOT NULL DEFAULT now(),
    started_at    timestamptz NOT NULL,
    ended_at      timestamptz,
    failure       text,
    traces_count  bigint      NOT NULL DEFAULT 0,
    spans_count   bigint      NOT NULL DEFAULT 0,
    bytes_count   bigint      NOT NULL DEFAULT 0,
    traces_total  bigint      NOT NULL DEFAULT 0,
    spans_total   bigint      NOT NULL DEFAULT 0,
    bytes_total   bigint      NOT NULL DEFAULT 0
);

-- Work that one process at a time does: a subscription, an alert, the messages of an alert, the retention and the
-- settling of all projects. `id` is that of the subscription or the alert. `holder` is made new by each claim; it ends
-- at `expires_at`. `next_run` is when it may be claimed, 'infinity' while nothing is to be done. `failures` counts the
-- runs in a row that failed unexpectedly. A transaction that locks a lease and the row that it is about locks the lease
-- first.
CREATE TABLE leases (
    kind       text        NOT NULL,
    id         uuid        NOT NULL,
    project_id uuid        REFERENCES projects (id) ON DELETE CASCADE,
    next_run   timestamptz NOT NULL DEFAULT now(),
    holder     uuid        UNIQUE,
    expires_at timestamptz,
    failures   integer     NOT NULL DEFAULT 0,
    PRIMARY KEY (id, kind)
);
CREATE INDEX leases_due ON leases (next_run) WHERE holder IS NULL;
CREATE INDEX leases_of_project ON leases (project_id);

INSERT INTO leases (kind, id) VALUES
    ('retention', '00000000-0000-0000-0000-000000000000'),
    ('settling', '00000000-0000-0000-0000-000000000000');

-- How far traces are settled, for all projects: one row (ADR 0049). A run is finished by the update that finds the
-- number of the run before it. `pending`: what the run settled, until it is in ClickHouse. `time_us` is the time by
-- which traces are quiet; it goes on from `clock_us`, the clock at the run, and never back. `positions`: the offset to
-- which each partition was stored. `complete_run` and `incomplete_run`: the last window that was examined after the
-- shorter and after the longer time; `complete_rest` and `incomplete_rest`: what is left of the next one; `complete_own`
-- and `incomplete_own`: the same of projects that are behind, as run and rest by project. Texts are JSON.
CREATE TABLE settling (
    id              boolean PRIMARY KEY DEFAULT true CHECK (id),
    run             bigint  NOT NULL DEFAULT 0,
    time_us         bigint  NOT NULL DEFAULT 0,
    clock_us        bigint,
    positions       text    NOT NULL DEFAULT '{}',
    pending         bytea,
    complete_run    bigint  NOT NULL DEFAULT 0,
    complete_rest   text,
    complete_own    text    NOT NULL DEFAULT '{}',
    incomplete_run  bigint  NOT NULL DEFAULT 0,
    incomplete_rest text,
    incomplete_own  text    NOT NULL DEFAULT '{}'
);
INSERT INTO settling DEFAULT VALUES;

-- What arrived before each run: of each partition, the first and the last offset. A window is needed until it has been
-- examined twice.
CREATE TABLE settling_windows (
    run              bigint  PRIMARY KEY,
    time_us          bigint  NOT NULL,
    ranges           text    NOT NULL, -- JSON
    incomplete_count bigint  NOT NULL DEFAULT 0 -- traces that were quiet and not complete
);

-- The masking rules of a project: what workers replace or remove before they store its spans.
CREATE TABLE masking (
    project_id   uuid        PRIMARY KEY REFERENCES projects ON DELETE CASCADE,
    rules        text        NOT NULL, -- a JSON array
    hash_key     bytea       NOT NULL,
    values_count bigint      NOT NULL DEFAULT 0, -- values that were masked
    masked_at    timestamptz,
    updated_at   timestamptz NOT NULL DEFAULT now(),
    updated_by   uuid        NOT NULL
);

-- Who changed what, and who was refused (ADR 0023). A change has an entry before it begins, whose `status` is set once,
-- when it has ended; equal refusals share an entry. `project_id` is zero for what is of no project. It does not refer
-- to `projects`: entries stay when their project is deleted, until they are too old.
CREATE TABLE audit_entries (
    id         bigserial   PRIMARY KEY,
    kind       text        NOT NULL CHECK (kind IN ('write', 'refusal')),
    project_id uuid        NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    until      timestamptz,
    requests_count bigint  NOT NULL DEFAULT 1,
    actor      text        NOT NULL,
    actor_name text,
    key_id     uuid,
    user_id    uuid,
    address    text,
    operation  text        NOT NULL,
    status     smallint,
    request_id text,
    entities   jsonb       NOT NULL DEFAULT '[]'
);
CREATE INDEX audit_entries_of_project ON audit_entries (project_id, kind, id);
CREATE INDEX audit_entries_in_order ON audit_entries (project_id, id);
CREATE INDEX audit_entries_of_key ON audit_entries (key_id, id) WHERE key_id IS NOT NULL;
CREATE INDEX audit_entries_by_age ON audit_entries (at);

-- No statement of ours changes an entry otherwise; a mistake in one must not.
CREATE FUNCTION keep_audit_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an entry of the audit log cannot be changed';
END
$$;
CREATE TRIGGER keep_audit_entry BEFORE UPDATE ON audit_entries FOR EACH ROW
WHEN (
    OLD.status IS NOT NULL
    OR (OLD.id, OLD.kind, OLD.project_id, OLD.at, OLD.actor, OLD.key_id, OLD.user_id, OLD.operation)
        IS DISTINCT FROM (NEW.id, NEW.kind, NEW.project_id, NEW.at, NEW.actor, NEW.key_id, NEW.user_id, NEW.operation)
)
EXECUTE FUNCTION keep_audit_entry();
