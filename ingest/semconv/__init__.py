"""What other instrumentations write, mapped to ``ag.*``: their tables, and the engine that applies them."""
