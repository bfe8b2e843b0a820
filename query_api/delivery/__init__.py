"""Subscriptions: delivering spans to other systems."""
