"""Listening for HTTP: aiohttp's low-level server, with bounds on what strangers can hold."""
