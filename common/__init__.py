"""Shared by the worker and the API: values, limits, codecs, and the clients of other systems."""
