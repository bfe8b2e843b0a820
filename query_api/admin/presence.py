"""``POST /admin/presence/query``: what became of spans that were in records of Kafka, for ``clearspan audit``.

A span of a record is *stored* if its latest version, from this record or a later one, has a row. It is *deleted* if its
version from this record or a later one was deleted. Otherwise it is *dead-lettered*, if a dead letter of its own or of
its whole record exists, open or resolved, or else *missing*. Which spans share a dead letter is not stored, so spans
that may be in one are missing here, and the response says how many it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final
from uuid import UUID

from pydantic import Field

from common.clickhouse.dead_letters import dead_letter_id
from common.errors import InvalidInput, Unavailable
from common.ids import parse_span_id, parse_trace_id
from common.kafka.record import Partition
from common.postgres.projects import Projects
from common.span_version import version_of
from query_api.admin.dead_letters import table_of
from query_api.filter.sql.compile import EVERY_ROW
from query_api.freshness.status import END_OFFSETS_TIMEOUT_S
from query_api.request.context import ApiContext, database_of
from query_api.request.json_body import ApiModel, Listed, Strict, json_response
from query_api.request.references import Text
from query_api.request.route import Request, Response
from query_api.spans.latest_versions import current_rows
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.versions import SentVersions, SpanKey, among_ids, latest_among, packed_ids, sent_versions

SPANS_MAX: Final = 2_000
"""Spans of one request."""

_ID_CHARACTERS_MAX: Final = 100
_NAME_CHARACTERS_MAX: Final = 400
_CONDITION: Final = f"trace_id IN {among_ids('trace_ids')} AND span_id IN {among_ids('span_ids')}"
_DELETED: Final = "It was deleted."

_Id = Annotated[Text, Field(max_length=_ID_CHARACTERS_MAX)]


class RecordedSpan(Strict):
    """A span of a record. Without ids it can only be dead-lettered."""

    offset: int = Field(ge=0, lt=2**62, description="The offset of the record in its partition.")
    record_ms: int = Field(ge=-1, lt=2**62, description="The timestamp of the record, in milliseconds since 1970.")
    span_index: int | None = Field(
        None, ge=0, lt=2**32, description="The place of the span in its record, from 0; omit it for the whole record."
    )
    running: bool = Field(default=False, description="Whether the record says that the span is running.")
    trace_id: _Id | None = Field(None, description="The id of its trace.")
    span_id: _Id | None = Field(None, description="Its id.")


class PresenceQuery(Strict):
    """Spans of one project in records of one partition."""

    project_id: UUID = Field(description="The project of the spans.")
    topic: Annotated[Text, Field(max_length=_NAME_CHARACTERS_MAX)] = Field(description="The Kafka topic.")
    partition: int = Field(ge=0, lt=2**31, description="The number of the partition.")
    spans: Annotated[Listed[RecordedSpan], Field(max_length=SPANS_MAX)] = Field(description="The spans, at most 2,000.")


class MissingSpan(ApiModel):
    """A span that is neither stored nor deleted, and has no dead letter of its own."""

    offset: int = Field(description="The offset of its record.")
    span_index: int | None = Field(description="Its place in the record, as in the request.")
    reason: str = Field(description="What is stored instead.")


class SharedDeadLetter(ApiModel):
    """A dead letter that several spans of a record share."""

    offset: int = Field(description="The offset of the record.")
    span_count: int = Field(description="How many spans share it.")


class PresenceResponse(ApiModel):
    """Which of the spans are not there."""

    count: int = Field(description="The number of missing spans.")
    stored: int = Field(description="How many are stored, in this version or a later one.")
    deleted: int = Field(description="How many were stored, and then deleted by a request or by retention.")
    dead_lettered: int = Field(description="How many have a dead letter, or their whole record has one.")
    project_exists: bool = Field(description="Whether the project exists. Spans of a deleted one are missing.")
    missing: list[MissingSpan] = Field(description="The missing spans, in the order of the request.")
    shared_dead_letters: list[SharedDeadLetter] = Field(
        description="Dead letters that some of the missing spans may share, one for each record at most."
    )


async def query_presence(request: Request) -> Response:
    """Return which spans of records in Kafka are neither stored, deleted nor dead-lettered."""
    body: PresenceQuery = request.body
    context = request.context
    partition_id = await _partition_id(context, Partition(body.topic, body.partition))
    spans = ProjectSpans(context.store, body.project_id, clock=context.clock, budget_s=context.settings.query.budget_s)
    reasons = await _reasons(spans, body.spans, partition_id.encode())
    absent = [(span, reason) for span, reason in zip(body.spans, reasons, strict=True) if reason not in ("", _DELETED)]
    ids = [
        {
            dead_letter_id(partition_id, body.partition, span.offset, span.record_ms, span_index)
            for span_index in (span.span_index, None)
        }
        for span, _ in absent
    ]
    shares = await table_of(context).shares_of(set().union(*ids))
    missing: list[MissingSpan] = []
    shared: dict[int, int] = {}
    for (span, reason), own_ids in zip(absent, ids, strict=True):
        counts = [shares[each] for each in own_ids if each in shares]
        if None not in counts:
            missing.append(MissingSpan(offset=span.offset, span_index=span.span_index, reason=reason))
            shared.update((span.offset, count) for count in counts if count is not None)
    projects = Projects(database_of(context), context.clock)
    return json_response(
        PresenceResponse(
            count=len(missing),
            stored=reasons.count(""),
            deleted=reasons.count(_DELETED),
            dead_lettered=len(absent) - len(missing),
            project_exists=not missing or await projects.find(body.project_id) is not None,
            missing=missing,
            shared_dead_letters=[SharedDeadLetter(offset=offset, span_count=n) for offset, n in shared.items()],
        )
    )


async def _partition_id(context: ApiContext, partition: Partition) -> str:
    """Return the id under which spans of a partition are stored now. Raises ``Unavailable`` or ``InvalidInput``."""
    known = context.ends
    ends = None if known is None else await known.refreshed(timeout_s=END_OFFSETS_TIMEOUT_S)
    if ends is None:
        raise Unavailable((known.failure if known is not None else None) or "Kafka's end offsets are not known yet.")
    partition_id = ends.partition_ids.get(partition)
    if partition_id is None:
        raise InvalidInput(f"partition: the worker reads no partition {partition.partition} of {partition.topic!r}.")
    return partition_id


async def _reasons(spans: ProjectSpans, asked: Sequence[RecordedSpan], partition_id: bytes) -> list[str]:
    """Return why each span is not stored: an empty text if it is stored."""
    keys = [_key(span, place) for place, span in enumerate(asked)]
    known = [key for key in keys if key is not None]
    values = {
        "trace_ids": packed_ids({key.trace_id for key in known}),
        "span_ids": packed_ids({key.span_id for key in known}),
    }
    rows = await spans.select(sent_versions(spans.project_id, [_CONDITION], values), step="versions")
    sent = SentVersions.of(rows)
    latest = {key: sent.sent[index] for key, index in latest_among(sent, ()).items()}
    current = await current_rows(spans, latest.values(), EVERY_ROW, step="rows")
    own: dict[tuple[bytes, bytes], int] = {}
    for key, version, row in zip(sent.keys, sent.versions, sent.sent, strict=True):
        if row.partition_id == partition_id:
            own[key] = max(version, own.get(key, version))

    def reason(span: RecordedSpan, key: SpanKey | None) -> str:
        if key is None:
            return "It is rejected."
        if key not in own:
            return "It is not stored."
        if own[key] < version_of(span.offset, is_running=span.running):
            return "Only an older version is stored."
        if key not in latest:
            return _DELETED
        return "" if latest[key] in current else "Its row is missing."

    return list(map(reason, asked, keys))


def _key(span: RecordedSpan, place: int) -> SpanKey | None:
    if span.trace_id is None or span.span_id is None:
        return None
    try:
        return SpanKey(parse_trace_id(span.trace_id), parse_span_id(span.span_id))
    except ValueError as exc:
        raise InvalidInput(f"spans[{place}]: {exc}") from None
