"""c. Kafka stops, starts again, cuts connections, is slow, deletes records, and has a topic created again."""

from __future__ import annotations

import asyncio
import signal
import time

from tests.faults.log import create_again, delete_half, numbers_of
from tests.faults.round import Round, Scenario
from tests.faults.spans import PROTO_TOPIC

FAR = 100_000
"""The first number of spans that are sent in a second part."""

AWAY_S = 8.0
"""Longer than a session of the group, and than a request may take."""

CREATED_AGAIN = 'clearspan_gaps_total{cause="created_again"'

STOPPED_S = 3.0
"""The broker needs about as long again until it answers."""

BAD_SPANS = 0.02
"""So that there are dead letters to publish while Kafka is away."""


def kafka_is_restarted(played: Round) -> None:
    """The broker gets SIGKILL and is started again over its log."""
    played.produce(bad_span_share=BAD_SPANS)
    played.pause(2.0)
    played.installation.kafka.kill()
    time.sleep(STOPPED_S)
    played.installation.kafka.start()


def kafka_is_unreachable(played: Round) -> None:
    """Connections are cut and refused, or no byte passes, or every open connection is reset again and again."""
    producer = played.produce(bad_span_share=BAD_SPANS)
    link, way = played.installation.kafka_link, played.random.choice(("refuse", "hang", "cut"))
    played.pause(1.5)
    if way == "cut":
        played.repeat(link.cut, producer, longest_s=1.0)
        return
    if way == "refuse":
        link.refuse()
    else:
        link.hang()
    time.sleep(AWAY_S)


def kafka_is_slow(played: Round) -> None:
    """Every response comes two seconds later."""
    played.installation.kafka_link.delay(2.0)
    played.produce(lasting_s=1.0, bad_span_share=BAD_SPANS)
    time.sleep(6.0)


def kafka_deletes_unread_records(played: Round) -> None:
    """Retention deletes half of each partition before a worker reads it: the gaps are named, the rest is stored."""
    first = played.produce(lasting_s=1.0, is_log_whole=False)
    first.finish()
    played.installation.wait_until_committed()
    for worker in played.installation.workers:
        worker.end(signal.SIGTERM)
    producer = played.produce(first_number=FAR, lasting_s=1.0, is_log_whole=False)
    producer.finish()
    records = [record for record in asyncio.run(producer.logged()) if record.mark.numbers.start >= FAR]
    halves = asyncio.run(delete_half(played.installation.bootstrap, records))
    deleted = [record for record in records if record.offset < halves[record.partition]]
    left = [record for record in records if record.offset >= halves[record.partition]]
    played.admitted = numbers_of(deleted) - numbers_of(left)
    for worker in played.installation.workers:
        worker.start()
    played.installation.wait_until_ready()
    named = {name for worker in played.installation.workers for name in worker.gaps()}
    for partition in halves.keys() - {at for at in halves if f"{at.topic}/{at.partition}" in named}:
        played.note(f"/readyz does not name the gap of {partition.topic}/{partition.partition}")


def topic_is_created_again(played: Round) -> None:
    """A topic is deleted and created again while workers run: the gap is named, and new versions of all spans win."""
    played.produce(topics=(PROTO_TOPIC,), lasting_s=1.0, is_log_whole=False).finish()
    played.installation.wait_until_committed()
    workers = played.installation.workers
    known = sum(worker.metric(CREATED_AGAIN) for worker in workers)
    asyncio.run(create_again(played.installation.kafka_settings, PROTO_TOPIC))
    played.produce(topics=(PROTO_TOPIC,), first_attempt=11).finish()
    played.installation.wait_until_committed()
    if not sum(worker.metric(CREATED_AGAIN) for worker in workers) > known:
        played.note("no worker counts the gap of a topic that was created again")
    if not any(name.startswith(PROTO_TOPIC) for worker in workers for name in worker.gaps()):
        played.note(f"/readyz does not name the gap of {PROTO_TOPIC}")


SCENARIOS: tuple[Scenario, ...] = (
    kafka_is_restarted,
    kafka_is_unreachable,
    kafka_is_slow,
    kafka_deletes_unread_records,
    topic_is_created_again,
)
