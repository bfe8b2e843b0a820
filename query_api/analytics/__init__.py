"""Analytics of spans: statistics of their values, and counts, per bucket of time."""
