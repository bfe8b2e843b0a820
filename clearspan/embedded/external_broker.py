"""A Kafka that the embedded stack does not own (``CLEARSPAN_EMBEDDED_BROKER=off``): nothing has to be started, held
back or replaced, and its records outlive the stack.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from clearspan.embedded.broker import EmbeddedBroker
from clearspan.embedded.guard import Child
from clearspan.embedded.layout import Layout
from common.kafka_settings import KafkaSettings
from common.settings import Settings


class ExternalBroker:
    """The Kafka of ``CLEARSPAN_KAFKA__BOOTSTRAP``, with the methods of ``EmbeddedBroker``."""

    keeps_records: Final = True

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def reached(self, kafka: KafkaSettings) -> KafkaSettings:
        """Return the settings as they are: with their certificates and users."""
        return kafka

    async def start(self, _port: int) -> None:
        """It runs already, or the parts of the stack wait for it."""

    def is_alive(self) -> bool:
        """Return true: each part of the stack notices by itself that it is away."""
        return True

    def children(self) -> list[Child]:
        """Return no process."""
        return []

    def memory_bytes(self) -> int:
        """Return 0: it never grows too large."""
        return 0

    def admit_produces(self) -> None:
        """Nothing holds produce requests back."""

    async def hold_produces(self) -> None:
        """Records that are produced meanwhile stay in Kafka."""

    async def replace(self) -> None:
        """It is never replaced."""

    async def close(self) -> None:
        """It runs on."""


Broker: TypeAlias = EmbeddedBroker | ExternalBroker


def broker_of(settings: Settings, layout: Layout) -> Broker:
    """Return the broker that the settings choose; it is not started yet."""
    if settings.embedded_broker == "on":
        return EmbeddedBroker(layout.broker_log)
    return ExternalBroker(settings.kafka.bootstrap)
