"""Filters: the tree, its fields, parsing, and its meaning in plain Python."""
