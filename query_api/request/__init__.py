"""What a handler gets and returns: requests, responses, JSON bodies, errors, cursors."""
