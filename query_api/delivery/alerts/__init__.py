"""Alerts: messages when a measure of spans begins and ends to be past a bound."""
