"""The explorer: a web page that shows traces, sessions, applications and the state of the stack (contract §8)."""
