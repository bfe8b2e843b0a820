"""Where a batch of spans ends."""
