"""Applications: their variants and revisions, on the wire."""
