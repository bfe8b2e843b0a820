"""Environments: what is deployed where, as a history of its own."""
