"""The worker: reads spans from Kafka, decodes and normalizes them, and stores them in ClickHouse."""
