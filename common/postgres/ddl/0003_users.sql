-- Users are whom changes are put down to; what a request may see is decided by the project of its key. The first one stands for
-- everybody: for requests without authentication, and for keys that name nobody.
CREATE TABLE users (
    id         uuid        PRIMARY KEY,
    email      text        CONSTRAINT users_email_unique UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO users (id) VALUES ('00000000-0000-7000-8000-000000000002');

-- The default is for the keys that are there already; from now on whoever makes a key says whose it is.
ALTER TABLE api_keys ADD COLUMN user_id uuid NOT NULL DEFAULT '00000000-0000-7000-8000-000000000002' REFERENCES users (id);
ALTER TABLE api_keys ALTER COLUMN user_id DROP DEFAULT;
