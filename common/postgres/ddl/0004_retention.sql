-- A project is deleted with everything that belongs to it: each table of a project refers to `projects` with ON DELETE
-- CASCADE. tests/integration/test_project_deletion.py checks this for every table that has a `project_id`.
ALTER TABLE api_keys
    DROP CONSTRAINT api_keys_project_id_fkey,
    ADD FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE;
ALTER TABLE artifacts
    DROP CONSTRAINT artifacts_project_id_fkey,
    ADD FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE;
ALTER TABLE variants
    DROP CONSTRAINT variants_project_id_artifact_id_fkey,
    ADD FOREIGN KEY (project_id, artifact_id) REFERENCES artifacts (project_id, id) ON DELETE CASCADE;
ALTER TABLE revisions
    DROP CONSTRAINT revisions_project_id_artifact_id_fkey,
    DROP CONSTRAINT revisions_project_id_variant_id_fkey,
    ADD FOREIGN KEY (project_id, artifact_id) REFERENCES artifacts (project_id, id) ON DELETE CASCADE,
    ADD FOREIGN KEY (project_id, variant_id) REFERENCES variants (project_id, id) ON DELETE CASCADE;

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

-- One row: when the next run begins, and which process works on it.
CREATE TABLE retention_schedule (
    is_only     boolean     PRIMARY KEY DEFAULT true CHECK (is_only),
    next_run_at timestamptz NOT NULL,
    holder      uuid,
    held_until  timestamptz
);
INSERT INTO retention_schedule (next_run_at) VALUES (now());
