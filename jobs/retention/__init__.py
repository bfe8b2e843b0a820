"""Deletes old traces and frees their rows."""
