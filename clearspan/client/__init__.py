"""Commands that speak to an API over HTTP: the connection, what they print, and one module for each command."""
