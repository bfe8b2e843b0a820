"""Every sample (``tests/data/samples``) on its real way into a store: records opened as the worker opens them, both encodings.

The two encodings are two topics, each with a project of its own, so that the answers about them can be compared.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp

from common.clickhouse.span_columns import SPANS_TABLE, stamped
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Record
from common.limits import SpanLimits
from common.settings import ClickHouseSettings, Encoding, TopicSettings
from common.times import SystemClock
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk
from tests.support.api import KnownKeys, context_of, serving
from tests.support.sample_records import NAMES, NOW_NS, SAMPLES
from tests.support.span_corpus import STORED_US
from tests.support.stores import opened_store

PROJECTS = {"protobuf": UUID(int=0xA), "JSON": UUID(int=0xB)}
"""Whose the spans are, by the encoding that they came in; its name is the key to it too."""

_VALUES = {
    "protobuf": [(SAMPLES / f"{name}.otlp_proto.bin").read_bytes() for name in NAMES],
    "JSON": [(SAMPLES / f"{name}.otlp_json.json").read_bytes() for name in NAMES],
}
_TOPICS = {
    "protobuf": TopicSettings(encoding=Encoding.OTLP_PROTO, project_id=PROJECTS["protobuf"]),
    "JSON": TopicSettings(encoding=Encoding.OTLP_JSON, project_id=PROJECTS["JSON"]),
}


def open_samples() -> DecodedChunk:
    """All records, opened as one chunk."""
    records = [
        Record(topic, 0, offset, 5, None, value)
        for topic, values in _VALUES.items()
        for offset, value in enumerate(values)
    ]
    partition_ids = {record.source: f"cluster/{record.topic}/0" for record in records}
    return decode_chunk(Chunk(records, partition_ids, NOW_NS), Rules(_TOPICS, SpanLimits(), DEFAULT_PROJECT_ID))


@dataclass(frozen=True)
class StoredSamples:
    """The API over all samples. Questions are asked of one encoding, and by default of protobuf."""

    client: aiohttp.ClientSession

    async def post(self, path: str, body: Any, *, encoding: str = "protobuf") -> Any:
        """The answer to a question."""
        async with self.client.post(path, json=body, headers={"Authorization": f"ApiKey {encoding}"}) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def spans(self, *conditions: dict[str, Any], encoding: str = "protobuf") -> list[dict[str, Any]]:
        """All spans that the conditions find."""
        windowing: dict[str, Any] | None = {"limit": 1_000}
        spans: list[dict[str, Any]] = []
        while windowing is not None:
            body = {"filtering": {"conditions": list(conditions)}, "windowing": windowing}
            answer = await self.post("/spans/query", body, encoding=encoding)
            spans += answer["spans"]
            windowing = {"limit": 1_000, **answer["windowing"]} if "windowing" in answer else None
        return spans


@asynccontextmanager
async def stored_samples(settings: ClickHouseSettings, data_dir: Path) -> AsyncIterator[StoredSamples]:
    """All samples in a database with all tables, and the API over it."""
    opened = open_samples()
    assert [account.rejections for account in opened.outcomes if account.rejections] == []
    rows = stamped(opened.rows, stored_us=STORED_US)
    async with opened_store(settings, data_dir=data_dir) as store:
        await store.insert(SPANS_TABLE, rows, dedup_token="samples", deadline_s=60.0)
        context = context_of(store=store, clock=SystemClock(), keys=KnownKeys(PROJECTS))
        async with serving(context) as client:
            yield StoredSamples(client)


def nested(spans: Any) -> Sequence[dict[str, Any]]:
    """The spans of a tree, as ``/traces/query`` shows it, in a row."""
    found = []
    for each in spans.values():
        for span in each if isinstance(each, list) else [each]:
            found += [span, *nested(span.get("spans", {}))]
    return found
