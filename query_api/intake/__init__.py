"""Spans over HTTP, published to Kafka."""
