"""Questions about spans."""
