"""Spans out of Clearspan: typed columns, and the stream of all spans of a query."""
