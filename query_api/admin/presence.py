"""``POST /admin/presence/query``: whether spans that were in records of Kafka are stored, for ``clearspan audit``.

A span of a record is *stored* if its latest version, from this record or a later one, has a row. It is *deleted* if its
version from this record or a later one was deleted. Otherwise it is *missing*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple
from uuid import UUID

from pydantic import BaseModel, Field

from common.errors import InvalidInput, Unavailable
from common.ids import parse_span_id, parse_trace_id
from common.kafka.record import Partition
from common.postgres.projects import Projects
from query_api.filter.sql.compile import EVERY_ROW
from query_api.freshness.status import END_OFFSETS_TIMEOUT_S
from query_api.request.context import ApiContext, database_of
from query_api.request.json_body import Listed, Strict, json_response
from query_api.request.references import Text
from query_api.request.route import Request, Response
from query_api.spans.latest_versions import current_rows
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.versions import SpanKey, Version, among_ids, packed_ids, sent_versions, values_of

SPANS_MAX: Final = 2_000
"""Spans of one request."""

_ID_CHARACTERS_MAX: Final = 100
_NAME_CHARACTERS_MAX: Final = 400
_CONDITION: Final = f"trace_id IN {among_ids('trace_ids')} AND span_id IN {among_ids('span_ids')}"

_Id = Annotated[Text, Field(max_length=_ID_CHARACTERS_MAX)]


class SpanPlace(Strict):
    """A span, and the offset of the record that holds it."""

    trace_id: _Id = Field(description="The id of its trace.")
    span_id: _Id = Field(description="Its id.")
    offset: int = Field(ge=0, lt=2**62, description="The offset of the record in its partition.")


class PresenceQuery(Strict):
    """Spans of one project in records of one partition."""

    project_id: UUID = Field(description="The project of the spans.")
    topic: Annotated[Text, Field(max_length=_NAME_CHARACTERS_MAX)] = Field(description="The Kafka topic.")
    partition: int = Field(ge=0, lt=2**31, description="The number of the partition.")
    spans: Annotated[Listed[SpanPlace], Field(max_length=SPANS_MAX)] = Field(description="The spans, at most 2,000.")


class MissingSpan(BaseModel):
    """A span that is neither stored nor deleted."""

    trace_id: str = Field(description="The id of its trace, as in the request.")
    span_id: str = Field(description="Its id, as in the request.")
    offset: int = Field(description="The offset of its record.")
    reason: str = Field(description="What is stored instead.")


class PresenceResponse(BaseModel):
    """Which of the spans are not there."""

    count: int = Field(description="The number of missing spans.")
    stored: int = Field(description="How many are stored, in this version or a later one.")
    deleted: int = Field(description="How many were stored, and then deleted by a request or by retention.")
    project_exists: bool = Field(description="Whether the project exists. Spans of a deleted one are missing.")
    missing: list[MissingSpan] = Field(description="The missing spans, in the order of the request.")


class _KnownVersion(NamedTuple):
    """The highest version of a span in one partition; an odd one is a deletion."""

    version: int
    record_ms: int
    start_us: int


async def query_presence(request: Request) -> Response:
    """Return which spans of records in Kafka are neither stored nor deleted. Rejected spans are missing here."""
    body: PresenceQuery = request.body
    context = request.context
    keys = [_key(span, place) for place, span in enumerate(body.spans)]
    spans = ProjectSpans(context.store, body.project_id, clock=context.clock, budget_s=context.settings.query.budget_s)
    partition_id = await _partition_id(context, Partition(body.topic, body.partition))
    known = await _known_versions(spans, keys)
    latest = {key: version for key, by_partition in known.items() if (version := _latest(key, by_partition))}
    rows = await current_rows(spans, latest.values(), EVERY_ROW, step="rows")
    missing: list[MissingSpan] = []
    deleted_count = 0
    for span, key in zip(body.spans, keys, strict=True):
        own = known[key].get(partition_id) if key in known else None
        if own is None or own.version < 2 * span.offset:
            reason = "It is not stored." if own is None else "Only an older version is stored."
        elif key not in latest:
            deleted_count += 1
            continue
        elif latest[key] in rows:
            continue
        else:
            reason = "Its row is missing."
        missing.append(MissingSpan(trace_id=span.trace_id, span_id=span.span_id, offset=span.offset, reason=reason))
    projects = Projects(database_of(context), context.clock)
    return json_response(
        PresenceResponse(
            count=len(missing),
            stored=len(keys) - deleted_count - len(missing),
            deleted=deleted_count,
            project_exists=not missing or await projects.find(body.project_id) is not None,
            missing=missing,
        )
    )


async def _partition_id(context: ApiContext, partition: Partition) -> bytes:
    """Return the id under which spans of a partition are stored now. Raises ``Unavailable`` or ``InvalidInput``."""
    known = context.ends
    ends = None if known is None else await known.refreshed(timeout_s=END_OFFSETS_TIMEOUT_S)
    if ends is None:
        raise Unavailable((known.failure if known is not None else None) or "Kafka's end offsets are not known yet.")
    found = ends.partition_ids.get(partition)
    if found is None:
        raise InvalidInput(f"partition: the worker reads no partition {partition.partition} of {partition.topic!r}.")
    return found.encode()


def _key(span: SpanPlace, place: int) -> SpanKey:
    try:
        return SpanKey(parse_trace_id(span.trace_id), parse_span_id(span.span_id))
    except ValueError as exc:
        raise InvalidInput(f"spans[{place}]: {exc}") from None


async def _known_versions(
    spans: ProjectSpans, keys: Sequence[SpanKey]
) -> Mapping[SpanKey, Mapping[bytes, _KnownVersion]]:
    """Return the highest version of each span by partition."""
    if not keys:
        return {}
    values = {
        "trace_ids": packed_ids({key.trace_id for key in keys}),
        "span_ids": packed_ids({key.span_id for key in keys}),
    }
    rows = await spans.select(sent_versions(spans.project_id, [_CONDITION], values), step="versions")
    names = ("trace_id", "span_id", "partition_id", "version", "record_ms", "start_us")
    known: dict[SpanKey, dict[bytes, _KnownVersion]] = defaultdict(dict)
    for trace_id, span_id, partition_id, *version in zip(*(values_of(rows, name) for name in names), strict=True):
        by_partition = known[SpanKey(trace_id, span_id)]
        by_partition[partition_id] = max(
            by_partition.get(partition_id, _KnownVersion(-1, 0, 0)), _KnownVersion(*version)
        )
    return dict(known)


def _latest(key: SpanKey, by_partition: Mapping[bytes, _KnownVersion]) -> Version | None:
    """Return the visible version of a span (``spans/versions.py``), ``None`` if it is deleted."""
    sent = [
        (known.record_ms, known.version, partition_id, known.start_us)
        for partition_id, known in by_partition.items()
        if known.version % 2 == 0
    ]
    if not sent:
        return None
    _, version, partition_id, start_us = max(sent)
    return Version(start_us, key.span_id, key.trace_id, partition_id, version // 2)
