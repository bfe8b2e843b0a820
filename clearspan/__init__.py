"""The front door: the command line and the embedded stack."""
