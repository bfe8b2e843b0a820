-- A subscription delivers the spans that a filter matches to a target. `position` is where its reader is in the feed;
-- it is written only after the target has acknowledged. While a batch is being delivered, `pending` is the position
-- after it, so that every retry delivers the same batch under the same number.
CREATE TABLE subscriptions (
    project_id       uuid        NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    id               uuid        NOT NULL DEFAULT uuid_v7(clock_timestamp()),
    slug             text        NOT NULL,
    name             text,
    selection        json        NOT NULL,
    target           json        NOT NULL,
    secrets          json        NOT NULL,
    status           text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused')),
    reason           text,
    position         bytea       NOT NULL,
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
    -- Counts the changes by users; a process that delivers loads the row again when it differs.
    changes_count    bigint      NOT NULL DEFAULT 0,
    lease_owner      uuid,
    lease_until      timestamptz,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by       uuid        NOT NULL,
    updated_at       timestamptz,
    updated_by       uuid,
    PRIMARY KEY (project_id, id),
    CONSTRAINT subscriptions_slug_unique UNIQUE (project_id, slug)
);
CREATE INDEX subscriptions_to_lease ON subscriptions (lease_until NULLS FIRST) WHERE status = 'active';
