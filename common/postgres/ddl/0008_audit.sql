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
