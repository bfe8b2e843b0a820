"""Log records of coding agents as spans (contract §4.1)."""
