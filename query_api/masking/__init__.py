"""The masking rules of a project."""
