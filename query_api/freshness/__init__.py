"""How far spans are stored, how fresh a response is, and the wait for own writes."""
