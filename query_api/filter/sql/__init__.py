"""Filters as SQL."""
