"""What the instrumentations of a project report, and what to set where something is missing."""
