"""The session and user routes: pages of the ids of visible spans, by their activity (reference §10.3).

The activity of an id is the start of its earliest span in the window, or of its latest (``realtime``). An id with
spans that were stored when the scan began is placed by these (``snapshot.py``), so it is on one page, whatever
arrived since.

A cursor holds::

    activity of the last id 8 B │ its tie-break 16 B │ has a leading bound 1 B │ leading bound 8 B │ length 2 B
    │ id, ≤ 256 B │ snapshot

Ids are in the order of their activity, then of their first 256 bytes, then of a hash of the rest. The leading bound
is the one of the first page: a later page may repeat it, or set it to the activity of the last id, as clients of the
reference do.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import orjson
import pyarrow as pa
from pydantic import Field, field_validator

from common.clickhouse.select import Select
from common.errors import InvalidCursor
from common.times import RelativeTime, format_us, microseconds
from query_api.explain.explain import Explain, Explanation, explained
from query_api.filter.parse import parse_filter
from query_api.filter.sql.compile import Compiled, compile_node
from query_api.freshness.follow import stored_offsets
from query_api.pages.snapshot import Snapshot
from query_api.request.json_body import ApiModel, Strict, limit_of, refuse_boolean
from query_api.request.references import BoundIn
from query_api.request.route import Request, Response
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.visible_spans import visible_spans
from query_api.spans.window import Window, page_cursor
from query_api.spans.windowing import Filtering, Order, Windowing

ID_BYTES_MAX: Final = 256
"""Of an id in a cursor, so that a client can carry it."""

ID_OF: Final = {
    name: f"if(ifNull({name}_id, '') != '', assumeNotNull({name}_id), {name}_in_attributes)"
    for name in ("session", "user")
}
"""An id is text, ``''`` if there is none. Roots have the id of their attributes in a column. Other spans may have one
there too, or in their attributes, where normalization keeps only texts."""


_PACKED: Final = struct.Struct(">q16s?qH")
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


def _in_utc(moment: datetime) -> datetime:
    """Return the moment in UTC, or the first or last one of the calendar if its zone leads out of it."""
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return zoned.astimezone(UTC)
    except OverflowError:
        return _FIRST if zoned.year == _FIRST.year else _LAST


ActivityBound: TypeAlias = Annotated[datetime | RelativeTime, BoundIn("windowing", convert=_in_utc)]
"""A bound that responses repeat, so it must be a moment that they can write."""


class ActivityWindowing(Strict):
    """The page of ids to return, and its order. The `windowing` of a response can be sent back as it is."""

    newest: ActivityBound | None = Field(None, description="Bound of start_time: excluded when descending.")
    oldest: ActivityBound | None = Field(None, description="Bound of start_time: excluded when ascending.")
    next: str | None = Field(None, max_length=131_072, description="The cursor that the last page returned.")
    limit: int | None = Field(None, ge=1, description="Ids on a page; default 100, at most 10,000.")
    order: Order | None = Field(None, description="Default descending: latest activity first.")
    rate: float | None = Field(
        None, ge=0, le=1, description="The share of traces that is sampled, from 0 to 1; default 1, all of them."
    )

    interval: int | None = Field(None, gt=0, description="Accepted, without effect.")

    _are_numbers = field_validator("limit", "rate", "interval", mode="before")(refuse_boolean)


class ActivityQuery(Strict):
    """A query for ids. Without members it returns the first page of all ids."""

    realtime: bool | None = Field(
        None, description="Whether the activity of an id is its latest span in the window instead of its earliest."
    )
    windowing: ActivityWindowing | None = Field(None, description="The page to return.")
    filtering: Filtering = Field(None, description="The filter of the spans.")
    explain: Explain = None


class ActivityWindowingResponse(ApiModel):
    """Present if there may be another page, else absent. Send it back as `windowing`, or send `next` with the same
    bounds.
    """

    newest: str | None = Field(None, description="Descending: the activity of the last id on this page.")
    oldest: str | None = Field(None, description="Ascending: the activity of the last id on this page.")
    next: str
    limit: int
    order: Order
    rate: float | None = None


class SessionIdsResponse(ApiModel):
    """Sessions in the order of their activity."""

    count: int
    session_ids: list[str]
    windowing: ActivityWindowingResponse | None = None
    explain: Explanation = None


class UserIdsResponse(ApiModel):
    """Users in the order of their activity."""

    count: int
    user_ids: list[str]
    windowing: ActivityWindowingResponse | None = None
    explain: Explanation = None


class IdPosition(NamedTuple):
    """The place of an id, and what its scan began with."""

    activity_us: int
    beginning: bytes
    tail: bytes
    leading_us: int | None
    """The leading bound of the first page."""

    snapshot: Snapshot

    def pack(self) -> bytes:
        """Return what a cursor holds."""
        leading = (self.leading_us is not None, self.leading_us or 0)
        head = _PACKED.pack(self.activity_us, self.tail, *leading, len(self.beginning))
        return head + self.beginning + self.snapshot.pack()

    @classmethod
    def unpack(cls, packed: bytes) -> IdPosition:
        """Return what ``pack`` wrote. Raises ``InvalidCursor``."""
        try:
            activity_us, tail, has_leading, leading_us, length = _PACKED.unpack_from(packed)
            beginning, offsets = packed[_PACKED.size :][:length], packed[_PACKED.size :][length:]
            snapshot = Snapshot.unpack(offsets)
        except struct.error as exc:
            raise InvalidCursor("The cursor in `next` cannot be read.") from exc
        return cls(activity_us, beginning, tail, leading_us if has_leading else None, snapshot)


async def query_sessions(request: Request) -> Response:
    """Return the distinct session ids of spans, by their activity, page by page."""
    return await _query(request, kind="session")


async def query_users(request: Request) -> Response:
    """Return the distinct user ids of spans, by their activity, page by page."""
    return await _query(request, kind="user")


async def _query(request: Request, *, kind: str) -> Response:
    query: ActivityQuery = request.body
    asked = query.windowing or ActivityWindowing()
    windowing = Windowing.model_construct(
        **{name: getattr(asked, name) for name in ("newest", "oldest", "next", "order", "rate")}
    )
    filtering = await parse_filter(query.filtering)
    limit = limit_of(asked.limit, request.context.settings.query)
    # The leading bound is in the cursor instead of its scope, because a client may write it in two ways.
    leading = "oldest" if asked.order is Order.ASCENDING else "newest"
    ordering = f"{kind}s by {'latest' if query.realtime else 'earliest'} span"
    cursor = page_cursor(request, ordering, filtering, windowing, unscoped=leading)
    window = Window.of(windowing, now_us=cursor.now_us)
    after: IdPosition | None = None
    if cursor.position is None:
        offsets = await stored_offsets(request.context, request.project_id, is_continued=False)
        snapshot = Snapshot.of_partitions(offsets)
    else:
        after = IdPosition.unpack(cursor.position)
        window, snapshot = _first_window(window, after, leading=leading), after.snapshot
    matching = await compile_node(filtering, now_us=cursor.now_us)
    spans = project_spans(request)
    visible = _spans_with_id(spans.project_id, ID_OF[kind], matching, window)
    ids = _ids(visible, window, snapshot, after, is_realtime=bool(query.realtime), count=limit + 1)
    found = await _select_ids(spans, ids, pauses_s=request.context.limits.insert_pauses_s)
    page = found[:limit].to_pylist()
    members: dict[str, Any] = {"count": len(page), f"{kind}_ids": [row["id"].decode() for row in page]}
    if len(found) > limit:
        *_, last = page
        position = IdPosition(last["activity_us"], last["beginning"], last["tail"], window.leading_us, snapshot)
        bounds = _shown(asked) | {leading: format_us(position.activity_us)}
        following = cursor.write(position.pack())
        members["windowing"] = {**bounds, "next": following, "limit": limit, "order": window.order}
        if asked.rate is not None:
            members["windowing"]["rate"] = asked.rate
    if spans.is_recorded:
        members["explain"] = orjson.Fragment(await explained(spans, filtering))
    return Response(orjson.dumps(members))


async def _select_ids(spans: ProjectSpans, ids: Select, *, pauses_s: Sequence[float]) -> pa.Table:
    """Return the rows of the query, read again while it saw a span of which the insert has not ended.

    An insert ends within milliseconds. If it does not, such spans are placed as new ones.
    """
    for pause_s in pauses_s:
        waiting = replace(ids, parameters={**ids.parameters, "is_waiting": 1})
        found = await spans.select(waiting, step="ids by activity")
        if not found.num_rows or not found["is_unsure"][0].as_py():
            return found
        await asyncio.sleep(pause_s)
    placed = replace(ids, parameters={**ids.parameters, "is_waiting": 0})
    return await spans.select(placed, step="ids by activity")


def _shown(asked: ActivityWindowing) -> dict[str, str]:
    """The bounds of a request, as a response repeats them: a relative one as its text."""
    bounds = {name: bound for name in ("newest", "oldest") if (bound := getattr(asked, name)) is not None}
    return {name: bound if isinstance(bound, RelativeTime) else _text_of(bound) for name, bound in bounds.items()}


def _text_of(bound: datetime) -> str:
    return format_us(microseconds(bound))


def _first_window(window: Window, after: IdPosition, *, leading: str) -> Window:
    """Return the window of the first page, given the one of the page after a position."""
    if window.leading_us not in (after.leading_us, after.activity_us):
        raise InvalidCursor(
            f"The cursor in windowing.next belongs to another windowing.{leading}: repeat it as on the page before,"
            " or as that page returned it."
        )
    bound_us = after.leading_us
    return replace(window, newest_us=bound_us) if window.is_descending else replace(window, oldest_us=bound_us)


def _spans_with_id(project_id: UUID, id_of: str, matching: Compiled, window: Window) -> Select:
    """Return the query of the visible spans in a window that match and have an id."""
    conditions, parameters = window.conditions()
    values = {**parameters, **matching.parameters}
    return visible_spans(project_id, {"id": id_of}, [matching.sql, *conditions], values, and_also=[f"{id_of} != ''"])


def _ids(
    spans: Select, window: Window, snapshot: Snapshot, after: IdPosition | None, *, is_realtime: bool, count: int
) -> Select:
    """Return the query of the first ``count`` ids of spans after a position.

    With ``{is_waiting:UInt8}``, ids with a span that ``span_arrivals`` lacks still come first, with ``is_unsure``:
    whether that span was sent again is not known yet.
    """
    project_id = spans.project_id
    held, held_values = snapshot.held_place_sql(project_id, starts=snapshot.arrived_starts(project_id))
    parameters = {**held_values, "ids": count}
    outermost = "max" if is_realtime else "min"
    direction, sign = ("DESC", "<") if window.is_descending else ("ASC", ">")
    is_after = "1"
    if after is not None:
        is_after = (
            f"(activity_us, beginning, tail) {sign} ({{after_us:Int64}}, unhex({{after_beginning:String}}),"
            " toFixedString(unhex({after_tail:String}), 16))"
        )
        parameters |= {
            "after_us": after.activity_us,
            "after_beginning": after.beginning.hex(),
            "after_tail": after.tail.hex(),
        }
    return Select(
        project_id,
        spans,
        [
            f"id, if(countIf({held}) > 0, {outermost}If(start_us, {held}), {outermost}(start_us)) AS activity_us",
            f"substring(id, 1, {ID_BYTES_MAX}) AS beginning",
            f"sipHash128(substring(id, {ID_BYTES_MAX} + 1)) AS tail",
            f"{{is_waiting:UInt8}} AND countIf({snapshot.not_in_arrivals_sql(project_id)}) > 0 AS is_unsure",
        ],
        group_by=["id"],
        having=[f"is_unsure OR {is_after}"],
        order_by=["is_unsure DESC", *(f"{name} {direction}" for name in ("activity_us", "beginning", "tail"))],
        limit="{ids:UInt32}",
        parameters=parameters,
    )
