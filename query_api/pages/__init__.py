"""Pages of spans, traces, sessions and the feed."""
