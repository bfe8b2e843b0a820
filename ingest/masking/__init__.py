"""Masking: what the rules of a project change in spans, dead letters and derived attributes."""
