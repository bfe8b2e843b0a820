-- Work that one process at a time does: a subscription, an alert, the messages of an alert, the retention of all
-- projects. `id` is that of the subscription or the alert. `holder` is made new by each claim; the lease ends by itself
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

INSERT INTO leases (kind, id) VALUES ('retention', '00000000-0000-0000-0000-000000000000');
INSERT INTO leases (kind, id, project_id) SELECT 'subscription', id, project_id FROM subscriptions;
INSERT INTO leases (kind, id, project_id)
SELECT kind, id, project_id FROM alerts, unnest('{alert,messages}'::text[]) AS kind;

DROP TABLE retention_schedule;
ALTER TABLE subscriptions DROP COLUMN lease_owner, DROP COLUMN lease_until, DROP COLUMN changes_count;
ALTER TABLE alerts
    DROP COLUMN lease_owner, DROP COLUMN lease_until, DROP COLUMN send_owner, DROP COLUMN send_until,
    DROP COLUMN changes_count;
DROP INDEX alerts_to_evaluate, alerts_to_send;
