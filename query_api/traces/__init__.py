"""Traces: the spans of one id as trees."""
