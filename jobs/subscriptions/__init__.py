"""Delivers the spans of subscriptions."""
