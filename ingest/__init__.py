"""The worker: the files are the steps of the way of a span, in order."""
