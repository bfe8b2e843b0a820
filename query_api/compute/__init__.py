"""CPU-bound work of requests, in child processes of the API, so that the event loop and its interpreter lock stay free (ADR 0014)."""
