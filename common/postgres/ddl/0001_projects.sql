-- Projects are the fence between tenants; the default one is inserted by migrate.
CREATE TABLE projects (
    id         uuid        PRIMARY KEY,
    name       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- A key is shown once, as `<prefix>.<secret>`; only the hash of the secret is kept. The secret is 256 random bits, so
-- a plain SHA-256 is enough: there is nothing to guess.
CREATE TABLE api_keys (
    id          uuid        PRIMARY KEY,
    project_id  uuid        NOT NULL REFERENCES projects (id),
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
