"""Evaluates alerts and sends their messages."""
