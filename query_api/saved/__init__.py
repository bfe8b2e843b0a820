"""Where histories and spans meet: saved queries that are run, and the spans of a revision."""
