"""From Kafka records to rows, a portion at a time, in a thread or in processes of their own (ADR 0006)."""
