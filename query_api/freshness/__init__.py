"""What the process knows of how far spans are stored, and what it tells of that."""
