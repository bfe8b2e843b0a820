"""What needs both histories and spans: running saved queries, and counting the spans of a revision."""
