"""The embedded stack: broker, Postgres, the engine, worker and API on one laptop, in one supervised place (ADR 0002)."""
