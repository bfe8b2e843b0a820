"""From Kafka records to rows, a chunk at a time, in a thread or in processes of their own (ADR 0006)."""
