"""Filters as people write them: ``cost > $0.01 and (service is shop or not model exists)``."""
