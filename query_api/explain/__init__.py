"""The ``explain`` member of an answer: statements, rows read, and a hint."""
