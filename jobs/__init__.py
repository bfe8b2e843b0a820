"""The work of ``clearspan deliver``: subscriptions, alerts and retention, each run under a lease."""
