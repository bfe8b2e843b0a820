-- An alert watches a measure of spans. It is evaluated at `next_at` by the process that holds its lease, and its messages
-- are delivered by the process that holds the lease to send; both leases end by themselves.
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
    -- Counts the changes by users: what a process began before such a change is not written.
    changes_count    bigint           NOT NULL DEFAULT 0,
    lease_owner      uuid,
    lease_until      timestamptz,
    send_owner       uuid,
    send_until       timestamptz,
    created_at       timestamptz      NOT NULL DEFAULT clock_timestamp(),
    created_by       uuid             NOT NULL,
    updated_at       timestamptz,
    updated_by       uuid,
    PRIMARY KEY (project_id, id),
    CONSTRAINT alerts_slug_unique UNIQUE (project_id, slug)
);
CREATE INDEX alerts_to_evaluate ON alerts (next_at) WHERE status = 'active';
CREATE INDEX alerts_to_send ON alerts (waiting_count) WHERE status = 'active' AND waiting_count > 0;

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

-- What targets acknowledged and rejected: it is not delivered again.
ALTER TABLE subscriptions
    ADD COLUMN rejected_spans    bigint NOT NULL DEFAULT 0,
    ADD COLUMN last_rejection    text,
    ADD COLUMN last_rejection_at timestamptz;
