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
