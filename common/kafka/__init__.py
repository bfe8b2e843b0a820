"""The room of Kafka: no type of the driver leaves it."""
