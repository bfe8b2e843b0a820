"""Accounts and the project of a key: who is here, as far as the API tells."""
