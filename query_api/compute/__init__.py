"""CPU-bound work of requests in child processes, so that the event loop stays free (ADR 0014)."""
