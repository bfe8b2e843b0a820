"""The page that shows the API: its markup, style and script, as files."""
