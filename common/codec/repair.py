"""What a span may hold that cannot be stored, and what it becomes (contract §4).

U+0000, half of a surrogate pair and bytes that are not UTF-8 become U+FFFD; a value below the deepest level becomes its
JSON text. Codecs read a span as it was sent and only note that something of it must be repaired: bytes that are not
UTF-8 as ``UNREADABLE``, values that are nested too deep as ``DeepText``. Here the finished span is repaired, so that
all encodings give equal spans.

``Span.repaired`` names the places by the members of responses: ``span_name``, ``attributes.a.b``,
``events.attributes.k``, ``resource.attributes.service.name``. Elements of arrays have the name of their array.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

import orjson

from common.errors import Rejected, RejectionCode
from common.log_record import LogRecord
from common.score import Score
from common.span import PROMOTED_TEXTS, Event, Link, LogMembers, Resource, Scope, Span

REPAIRED_MAX: Final = 20
"""How many places of a span are named (contract §4)."""

PLACE_LENGTH_MAX: Final = 200
"""A longer name of a place is cut: places of a resource are repeated by all its spans."""

LEVELS_MAX: Final = 10_000
"""A value with more levels, which no program means, is too large: its levels take 100 times its bytes."""

UNREADABLE: Final = "\udfff"
"""In place of each byte that cannot begin a character, and of each character that is cut off, until the text is
repaired: half of a surrogate pair, which no text in UTF-8 holds."""

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_FAULTY: Final = re.compile("[\0\ud800-\udfff]")
_ERRORS: Final = "clearspan-unreadable"
_END: Final = object()

codecs.register_error(_ERRORS, lambda error: (UNREADABLE, error.end))  # type: ignore[attr-defined] # of decoding


class DeepText(str):
    """The JSON text of a value that is nested too deep."""

    __slots__ = ()


class Faults:
    """Notes for one record whether any of its spans must be repaired; ``depth_max`` is how deep their values may be."""

    __slots__ = ("are_found", "depth_max")

    def __init__(self, depth_max: int, *, are_found: bool = False) -> None:
        self.depth_max = depth_max
        self.are_found = are_found

    def deep(self, value: Any, opened: Callable[[Any], Any]) -> DeepText:
        """Return the text of a value below the deepest level. Raises like ``json_text``."""
        self.are_found = True
        return DeepText(json_text(value, opened))

    def repaired(self, span: Span) -> Span:
        """Return the span, repaired if it may have to be, with the places of its resource and scope."""
        if not (self.are_found or span.resource.repaired or span.scope.repaired):
            return span
        return _repaired_span(span) if self.are_found else span._replace(repaired=_places(span, ()))

    def repaired_log(self, log: LogRecord) -> LogRecord:
        """Do the same for a log record."""
        if not (self.are_found or log.resource.repaired or log.scope.repaired):
            return log
        return _repaired_log(log) if self.are_found else log._replace(repaired=_places(log, ()))

    def repaired_resource(self, resource: Resource) -> Resource:
        """Return the resource, repaired if it may have to be. Its attributes are not nested yet."""
        if not self.are_found:
            return resource
        repairs = _Repairs()
        return resource._replace(
            attributes=repairs.value(resource.attributes, "resource.attributes"),
            schema_url=repairs.text(resource.schema_url, "resource.schema_url"),
            repaired=repairs.places,
        )

    def repaired_scope(self, scope: Scope) -> Scope:
        """Do the same for a scope."""
        if not self.are_found:
            return scope
        repairs = _Repairs()
        return scope._replace(
            name=repairs.text(scope.name, "scope.name"),
            version=repairs.text(scope.version, "scope.version"),
            attributes=repairs.value(scope.attributes, "scope.attributes"),
            schema_url=repairs.text(scope.schema_url, "scope.schema_url"),
            repaired=repairs.places,
        )


def decoded_text(raw: bytes) -> str:
    """Return the text of bytes, with ``UNREADABLE`` in place of what is not UTF-8."""
    return raw.decode("utf-8", _ERRORS)


def clean_json(scalar: Any) -> str:
    """Return the JSON text of a scalar, repaired."""
    return plain_json(_FAULTY.sub(_REPLACEMENT, scalar) if type(scalar) is str else scalar)


def plain_json(scalar: Any) -> str:
    """Return the JSON text of a scalar as it is."""
    return orjson.dumps(scalar).decode()


def json_text(value: Any, opened: Callable[[Any], Any], written: Callable[[Any], str] = clean_json) -> str:
    """Return the JSON text of a value, however deep. Raises ``Rejected`` past ``LEVELS_MAX``.

    ``opened`` returns the value of a node: a scalar that is ready for JSON, a list of nodes, or nodes by their keys.
    ``written`` returns the text of a scalar or key.
    """
    pieces: list[str] = []
    containers: list[tuple[Iterator[Any], str]] = []
    node: Any = value
    while node is not _END:
        found = opened(node)
        if type(found) is dict:
            pieces.append("{")
            containers.append((iter(found.items()), "}"))
        elif type(found) is list:
            pieces.append("[")
            containers.append((iter(found), "]"))
        else:
            pieces.append(written(found))
        if len(containers) > LEVELS_MAX:
            raise Rejected(
                RejectionCode.SPAN_TOO_LARGE,
                f"A value has more than {LEVELS_MAX} levels of arrays and objects, which is too many even for a text.",
            )
        node = _next_node(containers, pieces, written)
    return "".join(pieces)


def _next_node(containers: list[tuple[Iterator[Any], str]], pieces: list[str], written: Callable[[Any], str]) -> Any:
    """Return the node that follows, after its key if it has one; close the containers that end before it."""
    while containers:
        members, closing = containers[-1]
        member = next(members, _END)
        if member is _END:
            containers.pop()
            pieces.append(closing)
            continue
        if pieces[-1] not in ("{", "["):  # no scalar is written like these
            pieces.append(",")
        if closing == "]":
            return member
        key, node = cast("tuple[str, Any]", member)
        pieces.append(written(key) + ":")
        return node
    return _END


class _Repairs:
    """Repairs the texts of one span, and keeps the places where something was repaired."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[str, None] = {}

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(self._places)

    def text(self, text: str, place: str) -> str:
        if type(text) is not DeepText and _FAULTY.search(text) is None:
            return text
        if len(self._places) < REPAIRED_MAX:
            self._places[place] = None
        return _FAULTY.sub(_REPLACEMENT, str(text))

    def value(self, value: Any, place: str) -> Any:
        if isinstance(value, str):
            return self.text(value, place)
        if type(value) is dict:
            return self._members(value, place)
        if type(value) is list:
            return [self.value(element, place) for element in value]
        return value

    def _members(self, members: dict[str, Any], place: str) -> dict[str, Any]:
        """Repair keys and values. A repaired key that another member has gets a number, so that no value is lost."""
        repaired: dict[str, Any] = {}
        numbers: Counter[str] = Counter()
        for key, member in members.items():
            name = clean = _FAULTY.sub(_REPLACEMENT, key)
            while name != key and (name in members or name in repaired):
                numbers[clean] += 1
                name = f"{clean}{numbers[clean]}"
            below = _place_of(place, name)
            if name != key:
                self.text(key, below)
            repaired[name] = self.value(member, below)
        return repaired

    def event(self, event: Event) -> Event:
        return event._replace(
            name=self.text(event.name, "events.name"),
            attributes=self.value(event.attributes, "events.attributes"),
            log=None if event.log is None else self.log_members(event.log),
        )

    def log_members(self, log: LogMembers) -> LogMembers:
        return log._replace(
            body=self.value(log.body, "events.body"), severity_text=self.text(log.severity_text, "events.severity_text")
        )

    def score(self, score: Score) -> Score:
        texts = {name: self.value(getattr(score, name), f"scores.{name}") for name in ("name", "label", "explanation")}
        evaluator = self.value(score.source.evaluator, "scores.source.evaluator")
        return score._replace(**texts, source=score.source._replace(evaluator=evaluator))

    def link(self, link: Link) -> Link:
        return link._replace(
            attributes=self.value(link.attributes, "links.attributes"),
            trace_state=self.text(link.trace_state, "links.trace_state"),
        )


def _place_of(place: str, key: str) -> str:
    """Return the name of a member, cut if it is long."""
    if len(place) >= PLACE_LENGTH_MAX:
        return place
    name = f"{place}.{key[:PLACE_LENGTH_MAX]}"
    return name if len(name) <= PLACE_LENGTH_MAX else f"{name[: PLACE_LENGTH_MAX - 1]}…"


def _repaired_span(span: Span) -> Span:
    repairs = _Repairs()
    repaired = span._replace(
        name=repairs.text(span.name, "span_name"),
        status_message=repairs.value(span.status_message, "status_message"),
        trace_state=repairs.text(span.trace_state, "trace_state"),
        attributes=repairs.value(span.attributes, "attributes"),
        events=tuple(map(repairs.event, span.events)),
        links=None if span.links is None else tuple(map(repairs.link, span.links)),
        references=repairs.value(span.references, "references"),
        hashes=repairs.value(span.hashes, "hashes"),
        scores=tuple(map(repairs.score, span.scores)),
        **{member: repairs.value(getattr(span, member), member) for member in PROMOTED_TEXTS},
    )
    return repaired._replace(repaired=_places(repaired, repairs.places))


def _repaired_log(log: LogRecord) -> LogRecord:
    repairs = _Repairs()
    repaired = log._replace(
        name=repairs.text(log.name, "name"),
        body=repairs.value(log.body, "body"),
        attributes=repairs.value(log.attributes, "attributes"),
        severity_text=repairs.text(log.severity_text, "severity_text"),
    )
    return repaired._replace(repaired=_places(repaired, repairs.places))


def _places(member: Span | LogRecord, found: Iterable[str]) -> tuple[str, ...]:
    """Return the places that it was sent with, those that were found, and those of its resource and scope."""
    sent = [_FAULTY.sub(_REPLACEMENT, place) for place in member.repaired]
    places = dict.fromkeys([*sent, *found, *member.resource.repaired, *member.scope.repaired])
    return tuple(places)[:REPAIRED_MAX]
