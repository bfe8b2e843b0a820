-- What a key may do, for how long, and how much. Keys of before may do everything in their project.
ALTER TABLE api_keys
    ADD COLUMN scopes         text[]           NOT NULL DEFAULT '{admin}',
    ADD COLUMN requests_per_s double precision CHECK (requests_per_s > 0),
    ADD COLUMN concurrent_max integer          CHECK (concurrent_max > 0),
    ADD COLUMN expires_at     timestamptz,
    ADD COLUMN last_used_at   timestamptz;
