"""Kafka: the only package that imports the driver (aiokafka). No type of the driver leaves it."""
