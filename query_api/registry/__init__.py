"""Histories: artifacts, variants and revisions of applications, queries and environments."""
