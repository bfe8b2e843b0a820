"""Measures Clearspan next to the engine alone: `make bench`."""
