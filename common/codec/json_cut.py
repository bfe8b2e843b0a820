"""JSON as bytes: find where the spans of a document lie, and frame pieces of it again.

Needed only in rare cases: if the parser rejects a whole document because of one span, for dead letters, and where
intake splits a request by trace. Source: RFC 8259. Works on bytes that are not UTF-8 too: read as Latin-1, a character
is a byte. The content of a span is only skipped, so a span that is not JSON costs only itself as long as its brackets
close.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from common.codec.layout import Framing, Layout, ScopePart, SpanParts
from common.errors import Rejected, RejectionCode

_GAP: Final = re.compile(rb"[ \t\n\r]*,[ \t\n\r]*")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BRACKET_OR_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_SCALAR: Final = re.compile(r"[^\s,\[\]{}\":]+")
_SKIPPER: Final = json.JSONDecoder(strict=False)  # in C, ten times as fast as brackets one by one


class RequestNames(NamedTuple):
    """The names of the arrays of a request, from the outermost on: of each all spellings, the first is written."""

    resources: Sequence[str]
    scopes: Sequence[str]
    members: Sequence[str]


SPANS: Final = RequestNames(
    ("resourceSpans", "resource_spans"),
    ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans"),
    ("spans",),
)
LOG_RECORDS: Final = RequestNames(
    ("resourceLogs", "resource_logs"), ("scopeLogs", "scope_logs"), ("logRecords", "log_records")
)


class _BrokenJson(Exception):
    """The document cannot be followed. The message says at which byte."""


def lay_out_request(value: bytes, *, names: RequestNames = SPANS) -> Layout:
    """Return the layout of an OTLP/JSON request. Raises ``Rejected`` if its frame cannot be followed."""
    text = value.decode("latin-1")

    def scopes(text: str, at: int) -> tuple[Sequence[_Parted], int]:
        return _parted_elements(text, at, names.members, _values)

    def resources(text: str, at: int) -> tuple[Sequence[_Parted], int]:
        return _parted_elements(text, at, names.scopes, scopes)

    request = _document(text, names.resources, resources, "an OTLP request in JSON")
    spans = SpanParts()
    layout = Layout(value, _FRAMINGS[names], resources=[], scopes=[], spans=spans)
    for resource in request.elements:
        for scope in resource.elements:
            for _, start, _, end in scope.elements:
                spans.add(len(layout.scopes), start, start, end)
            layout.scopes.append(ScopePart(len(layout.resources), scope.wrapper))
        layout.resources.append(resource.wrapper)
    return layout


def lay_out_spans(value: bytes) -> Layout:
    """Return the layout of a ``span_json`` record: ``{"spans": […]}``, or one span. Raises ``Rejected``."""
    parted = _document(value.decode("latin-1"), ("spans",), _values, "JSON with spans")
    if "spans" in parted.names and "trace_id" not in parted.names:
        return Layout(value, _LIST_FRAMING, [b""], [ScopePart(0, b"")], parted.elements or SpanParts())
    spans = SpanParts()
    spans.add(0, 0, 0, len(value))
    return Layout(value, _LIST_FRAMING._replace(scope=lambda _, pieces: pieces[0]), [b""], [ScopePart(0, b"")], spans)


class _Parted(NamedTuple):
    """An object split at one of its arrays: the other members, the elements, the names of all members, and where it
    ends.
    """

    wrapper: bytes
    elements: Any
    names: frozenset[str]
    end: int


_ReadArray: TypeAlias = Callable[[str, int], tuple[Any, int]]
"""Reads the array at a byte: returns its elements, and the byte after it."""


def _document(text: str, array_names: Sequence[str], read_array: _ReadArray, expected: str) -> _Parted:
    try:
        parted = _parted(text, _skipped(text, 0), array_names, read_array)
        _check_nothing_follows(text, parted.end)
    except _BrokenJson as exc:
        raise Rejected(RejectionCode.UNDECODABLE, f"The record is not {expected}: {exc}.") from exc
    return parted


def _parted_elements(
    text: str, at: int, array_names: Sequence[str], read_array: _ReadArray
) -> tuple[Sequence[_Parted], int]:
    """Return the elements of the array that are not empty: there may be millions of empty ones."""
    elements = []
    at = _skipped(text, _expected(text, at, "["))
    while text[at : at + 1] != "]":
        element = _parted(text, at, array_names, read_array)
        if element.elements:
            elements.append(element)
        at = _after_comma(text, element.end, "]")
    return elements, at + 1


def _values(text: str, at: int) -> tuple[SpanParts, int]:
    """Return where the elements of the array lie."""
    parts = SpanParts()
    at = _skipped(text, _expected(text, at, "["))
    while text[at : at + 1] != "]":
        end = _value_end(text, at)
        parts.add(0, at, at, end)
        at = _after_comma(text, end, "]")
    return parts, at + 1


def _parted(text: str, at: int, array_names: Sequence[str], read_array: _ReadArray) -> _Parted:
    """Return the object at ``at``. Of several arrays the one whose name is first in ``array_names`` counts; of one
    name, the last.
    """
    others, names = [], set()
    arrays: dict[str, Any] = {}
    at = _skipped(text, _expected(text, at, "{"))
    while text[at : at + 1] != "}":
        token = _STRING.match(text, at)
        if token is None:
            raise _BrokenJson(f"the name of a member is missing at byte {at}")
        name, name_start = _unescaped(token[0]), at
        names.add(name)
        at = _skipped(text, _expected(text, _skipped(text, token.end()), ":"))
        if name in array_names and not text.startswith("null", at):
            arrays[name], at = read_array(text, at)
        else:
            at = _value_end(text, at)
            others.append(text[name_start:at].encode("latin-1"))
        at = _after_comma(text, at, "}")
    counting = next((arrays[name] for name in array_names if name in arrays), ())
    return _Parted(b",".join(others), counting, frozenset(names), at + 1)


def _check_nothing_follows(text: str, at: int) -> None:
    if _skipped(text, at) != len(text):
        raise _BrokenJson(f"the document ends at byte {at}, and more follows")


def _value_end(text: str, at: int) -> int:
    first = text[at : at + 1]
    if first == '"':
        match = _STRING.match(text, at)
    elif first in ("{", "["):
        try:
            return _SKIPPER.raw_decode(text, at)[1]
        except (ValueError, RecursionError):
            return _brackets_end(text, at)
    else:
        match = _SCALAR.match(text, at)
    if match is None:
        raise _BrokenJson(f"a value is missing at byte {at}")
    return match.end()


def _brackets_end(text: str, at: int) -> int:
    """Return the byte after the bracket that closes the one at ``at``; the parser checks which kind closes which."""
    depth = 0
    for match in _BRACKET_OR_STRING.finditer(text, at):
        if match[0] in ("{", "["):
            depth += 1
        elif match[0] in ("}", "]"):
            depth -= 1
            if depth == 0:
                return match.end()
    raise _BrokenJson(f"the bracket at byte {at} does not close")


def _after_comma(text: str, at: int, closing: str) -> int:
    at = _skipped(text, at)
    if text[at : at + 1] == closing:
        return at
    return _skipped(text, _expected(text, at, ","))


def _expected(text: str, at: int, character: str) -> int:
    if text[at : at + 1] != character:
        raise _BrokenJson(f"“{character}” is missing at byte {at}")
    return at + 1


def _skipped(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _unescaped(token: str) -> str:
    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        return token[1:-1]


def _wrapped(others: bytes, name: bytes, values: list[bytes]) -> bytes:
    return b"{" + others + (b"," if others else b"") + b'"' + name + b'":[' + b",".join(values) + b"]}"


def _framing(names: RequestNames) -> Framing:
    resources, scopes, members = (spellings[0].encode() for spellings in names)
    return Framing(
        scope=lambda wrapper, pieces: _wrapped(wrapper, members, pieces),
        resource=lambda wrapper, pieces: _wrapped(wrapper, scopes, pieces),
        request=lambda pieces: _wrapped(b"", resources, pieces),
        is_gap=_GAP.fullmatch,
    )


_FRAMINGS: Final = {names: _framing(names) for names in (SPANS, LOG_RECORDS)}
_LIST_FRAMING: Final = Framing(
    scope=lambda _, spans: _wrapped(b"", b"spans", spans),
    resource=lambda _, lists: b"".join(lists),
    request=lambda lists: b"".join(lists) or _wrapped(b"", b"spans", []),
    is_gap=_GAP.fullmatch,
)
