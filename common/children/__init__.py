"""A pool of child processes for CPU-bound work: decoding of records, and large bodies of requests."""
