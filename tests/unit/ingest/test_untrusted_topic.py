"""Records of a topic with ``trust_project: false`` belong to its project, whatever they say (contract §2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from typing_extensions import override

from common.kafka.record import CONTENT_TYPE_HEADER, CONTENT_TYPES, PROJECT_HEADER, Header
from common.masking import MaskAction, MaskRule, ProjectRules, pack
from common.settings import Encoding, TopicSettings
from ingest.sink import RejectedRow, SpanRows
from ingest.worker import Worker
from tests.fakes.kafka import MemoryBroker
from tests.fakes.sink import RecordingSink
from tests.support.otlp import request
from tests.unit.ingest.test_current_masking import Reader
from tests.unit.ingest.test_worker import DEAD, POLICY, TOPIC, Bench, until

OWN, VICTIM = UUID(int=7), UUID(int=8)
TRUSTED = "trusted"
CLAIM = (PROJECT_HEADER, str(VICTIM).encode())


class ProjectsSink(RecordingSink):
    """Keeps the project and the name of each span."""

    def __init__(self, journal: list[str]) -> None:
        super().__init__(journal)
        self.spans: list[tuple[UUID, str]] = []

    @override
    async def write(self, spans: SpanRows, /) -> Sequence[RejectedRow]:
        columns = spans.columns.select(["project_id", "name"]).to_pydict()
        self.spans += zip(map(_uuid, columns["project_id"]), columns["name"], strict=True)
        return await super().write(spans)


class Every:
    """Knows every project."""

    async def exists(self, project_id: UUID, /) -> bool:
        return True


def _uuid(value: bytes) -> UUID:
    return UUID(bytes=value)


def _bench(encoding: Encoding, reader: Reader | None = None, *, streak_max: int = 10_000) -> tuple[Bench, ProjectsSink]:
    topics = {
        TOPIC: TopicSettings(encoding=encoding, project_id=OWN, trust_project=False),
        TRUSTED: TopicSettings(encoding=encoding, project_id=OWN),
    }
    policy = replace(POLICY, rules=replace(POLICY.rules, topics=topics), streak_max=streak_max)
    bench = Bench(policy, MemoryBroker(partitions=1))
    sink = ProjectsSink(bench.broker.journal)
    source = bench.broker.source(TOPIC, TRUSTED)
    bench.dependencies = replace(bench.dependencies, sinks=(sink,), projects=Every(), masks=reader, source=source)
    bench.worker = Worker(policy, bench.dependencies)
    return bench, sink


def _encoded(names: Sequence[str], encoding: Encoding, *, absurd: Sequence[str] = (), nested: bool = False) -> bytes:
    """Spans that say in their resource that they belong to another project."""
    otlp = request(names, project=str(VICTIM), absurd=absurd)
    if encoding is Encoding.OTLP_PROTO:
        return otlp
    message = ExportTraceServiceRequest.FromString(otlp)
    if encoding is Encoding.OTLP_JSON:
        return json.dumps(MessageToDict(message)).encode()
    claim: dict[str, Any] = {"project": {"id": str(VICTIM)}} if nested else {"project.id": str(VICTIM)}
    spans = [
        {
            "trace_id": span.trace_id.hex(),
            "span_id": span.span_id.hex(),
            "span_name": span.name,
            "start_time_unix_nano": str(span.start_time_unix_nano),
            "end_time_unix_nano": str(span.end_time_unix_nano),
            "resource": {"attributes": claim},
        }
        for span in message.resource_spans[0].scope_spans[0].spans
    ]
    return json.dumps({"spans": spans}).encode()


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("headers", [(), (CLAIM,), (CLAIM, (PROJECT_HEADER, None)), ((PROJECT_HEADER, b"no id"),)])
async def test_header_and_attribute_are_ignored_in_every_encoding(encoding: Encoding, headers: list[Header]) -> None:
    bench, sink = _bench(encoding)
    value = _encoded(["a", "b"], encoding, nested=True)
    await bench.broker.append(TOPIC, value, headers=headers)

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert sink.spans == [(OWN, "a"), (OWN, "b")]


@pytest.mark.parametrize("encoding", Encoding)
async def test_encoding_in_a_header_does_not_bring_the_claim_back(encoding: Encoding) -> None:
    bench, sink = _bench(Encoding.OTLP_PROTO)
    content_type = (CONTENT_TYPE_HEADER, CONTENT_TYPES[encoding].encode())
    await bench.broker.append(TOPIC, _encoded(["a"], encoding), headers=[content_type, CLAIM])

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    assert sink.spans == [(OWN, "a")]


async def test_other_topics_are_trusted() -> None:
    bench, sink = _bench(Encoding.OTLP_PROTO)
    await bench.broker.append(TRUSTED, _encoded(["a"], Encoding.OTLP_PROTO))
    await bench.broker.append(TRUSTED, request(["b"]), headers=[CLAIM])

    async with bench.running():
        await until(lambda: bench.committed_count == 2)

    assert sink.spans == [(VICTIM, "a"), (VICTIM, "b")]


@pytest.mark.parametrize("encoding", Encoding)
async def test_dead_letters_belong_to_the_project_of_the_topic(encoding: Encoding) -> None:
    bench, _ = _bench(encoding)
    await bench.broker.append(TOPIC, _encoded(["a", "bad"], encoding, absurd=["bad"]), headers=[CLAIM])
    await bench.broker.append(TOPIC, b"nothing that can be read", headers=[CLAIM])

    async with bench.running():
        await until(lambda: bench.committed_count == 2)

    letters = [row for row, _ in bench.dead_letters.rows.values()]
    assert [(letter.project, letter.span_index) for letter in letters] == [(str(OWN), 1), (str(OWN), None)]


async def test_dead_letter_that_is_published_again_stays_in_the_project() -> None:
    bench, sink = _bench(Encoding.OTLP_PROTO)
    await bench.broker.append(TOPIC, _encoded(["bad"], Encoding.OTLP_PROTO, absurd=["bad"]), headers=[CLAIM])
    async with bench.running():
        await until(lambda: bench.committed_count == 1)
        [letter] = bench.broker.records(DEAD)
        await bench.broker.append(TRUSTED, request(["again"], project=str(VICTIM)), headers=letter.headers)
        await until(lambda: bench.committed_count == 2)

    assert sink.spans == [(OWN, "again")]


async def test_masking_rules_are_those_of_the_project_of_the_topic() -> None:
    reader = Reader()
    reader.masks = pack({OWN: ProjectRules((MaskRule(MaskAction.REDACT, value="secret"),), b"k")})
    bench, sink = _bench(Encoding.SPAN_JSON, reader)
    value = _encoded(["a secret", "bad secret"], Encoding.SPAN_JSON, absurd=["bad secret"])
    await bench.broker.append(TOPIC, value, headers=[CLAIM])

    async with bench.running():
        await until(lambda: bench.committed_count == 1)

    [letter] = bench.broker.records(DEAD)
    assert sink.spans == [(OWN, "a [masked]")]
    assert b"secret" not in (letter.value or b"")
    assert [row.project for row, _ in bench.dead_letters.rows.values()] == [str(OWN)]


async def test_flood_of_undecodable_records_does_not_hold_the_partition() -> None:
    bench, sink = _bench(Encoding.OTLP_PROTO, streak_max=3)
    for _ in range(20):
        await bench.broker.append(TOPIC, b"nothing that can be read")
    await bench.broker.append(TOPIC, request(["after"]))

    async with bench.running():
        await until(lambda: bench.committed_count == 21)

    assert sink.spans == [(OWN, "after")]
