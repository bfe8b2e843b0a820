"""Postgres: the pool, the migrations, projects and keys."""
