"""c. Kafka stops, starts again, cuts connections, and is slow."""

from __future__ import annotations

import time

from tests.faults.round import Round, Scenario

BAD_SPANS = 0.02
"""So that there are dead letters to publish while Kafka is away."""


def kafka_is_restarted(played: Round) -> None:
    """The broker gets SIGKILL and is started again over its log."""
    played.produce(bad_span_share=BAD_SPANS)
    played.pause(2.0)
    played.found.kafka.kill()
    played.pause(1.0)
    played.found.kafka.start()


def kafka_refuses(played: Round) -> None:
    """Every connection is cut, new ones are refused."""
    played.produce(bad_span_share=BAD_SPANS)
    played.pause(1.5)
    played.found.kafka_link.refuse()
    time.sleep(4.0)
    played.found.kafka_link.restore()


def kafka_hangs(played: Round) -> None:
    """No byte passes for longer than a request may take."""
    played.produce(bad_span_share=BAD_SPANS)
    played.pause(1.5)
    played.found.kafka_link.hang()
    time.sleep(6.0)
    played.found.kafka_link.restore()


def kafka_cuts_connections(played: Round) -> None:
    """Every open connection is reset, again and again."""
    producer = played.produce(bad_span_share=BAD_SPANS)
    while producer.acknowledged_share < 1.0:
        played.pause(1.0)
        played.found.kafka_link.cut()


def kafka_is_slow(played: Round) -> None:
    """Every response comes two seconds later."""
    played.found.kafka_link.delay(2.0)
    played.produce(lasting_s=1.0, bad_span_share=BAD_SPANS)
    time.sleep(6.0)
    played.found.kafka_link.restore()


SCENARIOS: tuple[Scenario, ...] = (
    kafka_is_restarted,
    kafka_refuses,
    kafka_hangs,
    kafka_cuts_connections,
    kafka_is_slow,
)
