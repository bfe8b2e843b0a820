"""Routes that exist for clients of the reference API only."""
