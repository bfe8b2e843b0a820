"""The audit log: what is recorded of requests, and the routes that show it (ADR 0023)."""
