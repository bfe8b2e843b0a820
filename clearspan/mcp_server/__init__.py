"""``clearspan mcp``: the spans of one project as tools of the Model Context Protocol, for language models."""
