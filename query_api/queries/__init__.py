"""Saved queries: questions about spans and traces, with a history."""
