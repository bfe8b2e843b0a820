"""The headers about freshness: ``X-Data-Through`` and ``X-Clearspan-Wait-For`` of every route that reads spans, and
``X-Clearspan-Coordinates`` of intake (ADR 0011).

``X-Data-Through`` is the time up to which everything that Kafka had accepted is queryable (``request/progress.py``).

``X-Clearspan-Wait-For`` lets clients read their own writes: the request waits until the records that it names are
queryable. It names records as intake signed them (``X-Clearspan-Coordinates``), or as ``topic/partition/offset`` for a
producer that writes to Kafka itself. The wait for a signed coordinate ends when everything up to it is stored, or
rejected and dead-lettered. A project that names ``topic/partition/offset`` waits for a record of its own at exactly
that offset, so that the wait reveals nothing about records of other projects.

Signed coordinates are a cursor that is bound to the project; its position is the last record in each partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from common.clickhouse.select import Select, Table
from common.errors import DeadlineExceeded, InvalidCursor, InvalidInput
from common.kafka.record import Coordinates, Partition
from common.span_version import OFFSET_SQL
from common.stored_position import ALL_PROJECTS
from common.telemetry import DATA_BEHIND_SECONDS
from common.times import format_us
from query_api.filter.parse import parse
from query_api.filter.sql.compile import compile_filter
from query_api.freshness.follow import look_up_stored, wait_for_news
from query_api.request.context import ApiContext
from query_api.request.progress import Through, asked_through_us, through_us
from query_api.request.route import Handler, Request, Response
from query_api.spans.project_spans import project_spans
from query_api.spans.window import fingerprint, read_cursor, write_cursor

COORDINATES_HEADER: Final = "X-Clearspan-Coordinates"
COORDINATES_MAX: Final = 200
"""Partitions in one header, and coordinates in one request: clients and proxies limit a header to 8 KiB."""

_OFFSET_DIGITS_MIN: Final = 12
"""The length of the text must not reveal how many records of all projects a partition holds."""

_DIGITS_MAX: Final = 18
"""The most digits of a number: more than any offset has, and fewer than 64 bits."""

WAIT_FOR_HEADER: Final = "X-Clearspan-Wait-For"
DATA_THROUGH_HEADER: Final = "X-Data-Through"
RESPONSE_END_OFFSETS_S: Final = 0.25
"""How long a finished response waits for Kafka's end offsets; a usual query takes longer than reading them."""

_NAME_CHARS_MAX: Final = 24
"""Characters of a signed text in a message: enough to recognize it."""

_PLACE: Final = ("partition_id", "record_offset")
_PLACE_OF_EVENT: Final = ("partition_id", f"{OFFSET_SQL} AS record_offset")
_AT_PLACES: Final = ("partition_id IN {partition_ids:Array(String)}", "record_offset IN {offsets:Array(UInt64)}")


async def with_freshness(request: Request, handler: Handler) -> Response:
    """Return the handler's response with ``X-Data-Through``, after the wait that ``X-Clearspan-Wait-For`` asks for.

    An invalid filter is rejected before the wait, because no new data makes it valid. Stored positions are read before
    the handler reads spans, so that the response contains everything that the header says.
    """
    context = request.context
    if text := ",".join(request.headers.getall(WAIT_FOR_HEADER, [])):
        wanted = read_wanted(text, request)
        _check_filter(request)
        await wait_until_stored(request, wanted)
    if context.ends is None:
        return await handler(request)
    stored = context.stored.through(ALL_PROJECTS)
    context.ends.refresh()
    response = await handler(request)
    ends = await context.ends.refreshed(timeout_s=RESPONSE_END_OFFSETS_S)
    time_us = through_us(ends, stored) if ends is not None else None
    if time_us is not None:
        DATA_BEHIND_SECONDS.set(max(0.0, context.clock.now_ns() / 1e9 - time_us / 1e6))
    if not request.sees_all_projects:  # the time may be that of another project's record
        time_us = asked_through_us(context.ends.recent, stored)
    if time_us is None:
        return response
    return replace(response, headers={**response.headers, DATA_THROUGH_HEADER: format_us(time_us)})


def _check_filter(request: Request) -> None:
    """Raise ``InvalidFilter`` if the filter in use is invalid: ``filter`` of the body, else of the query string, else
    ``filtering``."""
    for sent, name in ((request.body, "filter"), (request.query, "filter"), (request.body, "filtering")):
        if (filtering := getattr(sent, name, None)) is not None:
            compile_filter(parse(filtering, path=name))
            return


class Wanted(NamedTuple):
    """One element of the header. ``name`` identifies it in messages."""

    name: str
    coordinates: Sequence[Coordinates]
    is_own_record: bool = False
    """Whether to wait for a record of the project at exactly this place, instead of everything up to it."""


class Place(NamedTuple):
    """Where Kafka keeps a record."""

    partition_id: str
    offset: int


def read_wanted(text: str, request: Request) -> list[Wanted]:
    """Parse the header. Raises ``InvalidInput`` that says what is allowed.

    A caller who sees all projects waits for everything up to a place, and may name only topics that are read.
    """
    names = [part.strip() for part in text.split(",") if part.strip()]
    if len(names) > COORDINATES_MAX:
        raise InvalidInput(f"{WAIT_FOR_HEADER}: got {len(names)} coordinates; at most {COORDINATES_MAX} are allowed.")
    wanted = [_wanted(name, request) for name in names]
    topics = request.context.settings.kafka.topics
    for element in wanted if request.sees_all_projects else ():
        if any(where.topic not in topics for where in element.coordinates):
            raise InvalidInput(
                f"{WAIT_FOR_HEADER}: the topic of '{element.name}' is not read; allowed: {', '.join(topics)}."
            )
    return wanted


def _wanted(text: str, request: Request) -> Wanted:
    try:
        if "/" in text:
            return Wanted(text, [parse_coordinates(text)], is_own_record=not request.sees_all_projects)
        signed = read_signed_coordinates(text, project_id=request.project_id, secret=request.context.cursor_secret)
        return Wanted(f"{text[:_NAME_CHARS_MAX]}…", signed)
    except (ValueError, InvalidCursor) as exc:
        raise InvalidInput(
            f"{WAIT_FOR_HEADER}: '{text[:100]}' is neither a value of {COORDINATES_HEADER} for this project"
            " nor topic/partition/offset."
        ) from exc


async def wait_until_stored(request: Request, wanted: Sequence[Wanted]) -> None:
    """Return once everything wanted is queryable. Raises ``Overloaded``, and ``DeadlineExceeded`` that names what is
    missing."""
    context, own_records = request.context, OwnRecords(request)
    max_s = context.settings.query.wait_for_max_s
    deadline_s = context.clock.monotonic_s() + max_s
    if any(element.is_own_record for element in wanted):
        await look_up_stored(context, request.project_id)
    while True:
        since = context.stored.news_count(ALL_PROJECTS)
        missing = await _missing(context, wanted, own_records)
        if not missing:
            return
        if not await wait_for_news(context, ALL_PROJECTS, since=since, ends_s=deadline_s):
            raise DeadlineExceeded(f"{WAIT_FOR_HEADER}: not queryable after {max_s:g} s: {', '.join(missing)}.")


async def _missing(context: ApiContext, wanted: Sequence[Wanted], own_records: OwnRecords) -> list[str]:
    """Return the names of what is not queryable yet."""
    ids = await _partition_ids(context)
    # The id changes when another cluster replaces this one, with new offsets.
    places = [
        [Place(ids.get(Partition(where.topic, where.partition), ""), where.offset) for where in element.coordinates]
        for element in wanted
    ]
    stored = context.stored.through(ALL_PROJECTS)
    own = await own_records.find(
        [place for element, at in zip(wanted, places, strict=True) if element.is_own_record for place in at]
    )

    def is_queryable(element: Wanted, place: Place) -> bool:
        return place in own if element.is_own_record else _is_stored(place, stored.get(place.partition_id))

    return [
        element.name
        for element, at in zip(wanted, places, strict=True)
        if not all(is_queryable(element, place) for place in at)
    ]


async def _partition_ids(context: ApiContext) -> Mapping[Partition, str]:
    """Return the current id of each partition."""
    if context.ends is None:
        return {}
    # Before the first read no partition id is known, and news would not mention what is already stored.
    is_first = context.ends.latest is None
    timeout_s = context.settings.query.wait_for_max_s if is_first else context.limits.end_offsets_s
    context.ends.refresh()
    ends = await context.ends.refreshed(timeout_s=timeout_s)
    return ends.partition_ids if ends is not None else {}


def _is_stored(place: Place, through: Through | None) -> bool:
    return through is not None and place.offset <= through.offset


class OwnRecords:
    """Finds records of the project of one request. A place is queried once, when the project is stored up to it."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._found: dict[Place, bool] = {}

    async def find(self, places: Sequence[Place]) -> Set[Place]:
        """Return the places that hold a stored record of the project. Raises the errors of ``ColumnStore``."""
        if not places:
            return set()
        through = self._request.context.stored.through(self._request.project_id)
        due = [
            place for place in places if place not in self._found and _is_stored(place, through.get(place.partition_id))
        ]
        if due:
            await self._query(due)
        return {place for place in places if self._found.get(place)}

    async def _query(self, places: Sequence[Place]) -> None:
        parameters = {
            "partition_ids": [place.partition_id for place in places],
            "offsets": [place.offset for place in places],
        }
        arrived = Select(
            self._request.project_id, Table.ARRIVALS, _PLACE, _AT_PLACES, group_by=_PLACE, parameters=parameters
        )
        stored = await self._read(arrived)
        if not stored.issuperset(places):  # log records, whose spans may not have come
            events = Select(self._request.project_id, Table.EVENTS, _PLACE_OF_EVENT)
            logged = Select(
                self._request.project_id, events, _PLACE, _AT_PLACES, group_by=_PLACE, parameters=parameters
            )
            stored |= await self._read(logged)
        self._found |= {place: place in stored for place in places}

    async def _read(self, query: Select) -> set[Place]:
        rows = await project_spans(self._request, explain=False).select(query)
        pairs = zip(rows["partition_id"].to_pylist(), rows["record_offset"].to_pylist(), strict=True)
        return {Place(partition_id.decode(), offset) for partition_id, offset in pairs}


def coordinates_header(request: Request, where: Sequence[Coordinates]) -> dict[str, str]:
    """Return the header with the coordinates of the published records; nothing without records."""
    if not where:
        return {}
    return {
        COORDINATES_HEADER: sign_coordinates(where, project_id=request.project_id, secret=request.context.cursor_secret)
    }


def sign_coordinates(where: Sequence[Coordinates], *, project_id: UUID, secret: bytes) -> str:
    """Encrypt the last coordinates in each partition, as a text that only its project can use."""
    last = {(place.topic, place.partition): place for place in sorted(where)}
    texts = [f"{place.topic}/{place.partition}/{place.offset:0{_OFFSET_DIGITS_MIN}}" for place in last.values()]
    position = ",".join(texts[:COORDINATES_MAX]).encode()
    return write_cursor(position, scope=_coordinates_scope(project_id), secret=secret)


def read_signed_coordinates(text: str, *, project_id: UUID, secret: bytes) -> list[Coordinates]:
    """Return what ``sign_coordinates`` encrypted for the project. Raises ``InvalidCursor``."""
    position = read_cursor(text, scope=_coordinates_scope(project_id), secret=secret).position.decode()
    return [parse_coordinates(part) for part in position.split(",")]


def parse_coordinates(text: str) -> Coordinates:
    """Read ``topic/partition/offset``. Raises ``ValueError``."""
    topic, *numbers = text.rsplit("/", 2)
    if len(numbers) != 2 or not topic or not all(_is_number(number) for number in numbers):
        raise ValueError(text)
    return Coordinates(topic, int(numbers[0]), int(numbers[1]))


def _coordinates_scope(project_id: UUID) -> bytes:
    return fingerprint([b"coordinates", project_id.bytes])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
