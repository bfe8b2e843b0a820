"""The spans of a project: latest versions, usage, rows and rendering."""
