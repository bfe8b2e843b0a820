"""The embedded stack: everything in one process, with the broker and Postgres as its children (ADR 0002)."""
