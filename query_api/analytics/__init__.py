"""Numbers about spans: statistics of their values, and counts, bucket by bucket of time."""
