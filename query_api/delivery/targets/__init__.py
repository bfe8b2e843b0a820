"""The systems to which spans are delivered."""
