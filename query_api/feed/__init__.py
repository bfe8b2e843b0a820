"""The feed: spans in the order in which they became queryable, streamed page by page."""
