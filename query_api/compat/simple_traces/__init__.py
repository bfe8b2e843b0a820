"""Simple traces: traces of one span, such as feedback, under three names (reference ``spans-api`` §1.6)."""
