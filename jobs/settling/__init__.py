"""Says when traces are settled."""
