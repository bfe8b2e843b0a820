"""The API keys of the project of the key: create, list, rotate and revoke them (contract §2)."""
