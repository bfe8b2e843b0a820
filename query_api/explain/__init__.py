"""The member ``explain`` of a response: statements, rows read, and a hint."""
