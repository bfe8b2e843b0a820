"""The language that both processes speak, and the doors to other systems."""
