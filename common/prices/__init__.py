"""Prices of models: the names of a model, the table, and the files that hold one (docs/prices.md)."""
