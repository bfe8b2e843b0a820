"""A Kafka broker for one machine, in one process, with its records on disk (ADR 0002)."""
