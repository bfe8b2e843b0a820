"""Creation of topics; the contract tests check that real brokers accept them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from common.errors import ServiceError, Unavailable
from common.kafka import cluster
from common.settings import KafkaSettings

SETTINGS = KafkaSettings(partitions=3, replication_factor=2, message_bytes_max=5_000)
ALL = ["otlp_logs", "otlp_logs_json", "otlp_spans", "otlp_spans_json", "spans", "spans.dead_letter", "spans.stored"]


class _Admin:
    """Knows some topics, and returns a code for each one that it should create."""

    def __init__(self, *known: str, codes: dict[str, int] | None = None) -> None:
        self._known = known
        self._codes = codes or {}
        self.requested: list[Any] = []

    async def list_topics(self) -> list[str]:
        return list(self._known)

    async def create_topics(self, wanted: list[Any]) -> SimpleNamespace:
        self.requested += wanted
        return SimpleNamespace(topic_errors=[(topic.name, self._codes.get(topic.name, 0), None) for topic in wanted])


async def made(monkeypatch: pytest.MonkeyPatch, admin: _Admin) -> list[str]:
    @asynccontextmanager
    async def open_admin(_settings: KafkaSettings) -> AsyncIterator[_Admin]:
        yield admin

    monkeypatch.setattr(cluster, "open_admin", open_admin)
    return await cluster.ensure_topics(SETTINGS)


async def test_topics_are_created_with_their_sizes_and_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = _Admin()

    assert await made(monkeypatch, admin) == ALL
    assert {topic.name: (topic.num_partitions, topic.replication_factor) for topic in admin.requested} == {
        **dict.fromkeys(ALL, (3, 2)),
        "spans.stored": (1, 2),
    }
    assert {topic.topic_configs["max.message.bytes"] for topic in admin.requested} == {"5000"}
    kept = {topic.name: topic.topic_configs.get("retention.ms") for topic in admin.requested}
    assert kept == {**dict.fromkeys(ALL), "spans.dead_letter": "-1", "spans.stored": "3600000"}


async def test_existing_topics_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = _Admin(*ALL[1:], "another")

    assert await made(monkeypatch, admin) == ["otlp_logs"]
    assert [topic.name for topic in admin.requested] == ["otlp_logs"]

    none_missing = _Admin(*ALL)
    assert await made(monkeypatch, none_missing) == []
    assert none_missing.requested == []


async def test_topic_created_by_another_process_counts_as_present(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await made(monkeypatch, _Admin(codes={"spans": 36})) == [topic for topic in ALL if topic != "spans"]


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        (7, Unavailable, r"did not create the topic spans\.stored: RequestTimedOut"),
        (17, ServiceError, r"did not create the topic spans\.stored: InvalidTopic"),
        (29, Unavailable, r"may not create the topic spans\.stored\. Create it, or grant Create"),
    ],
)
async def test_rejected_topic_is_named(
    monkeypatch: pytest.MonkeyPatch, code: int, kind: type[ServiceError], reason: str
) -> None:
    with pytest.raises(ServiceError, match=reason) as rejected:
        await made(monkeypatch, _Admin(codes={"spans.stored": code}))

    assert type(rejected.value) is kind
