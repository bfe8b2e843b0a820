"""The page that documents the API: its markup, style and script, as files."""
