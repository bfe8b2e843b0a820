"""Traces of one span that people and evaluations write: annotations, feedback."""
