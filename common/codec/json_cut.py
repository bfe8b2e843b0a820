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

from common.codec.layout import Framing, RequestLayout, ScopePart, SpanPart, SpanParts, ascending, pieces

_GAP: Final = re.compile(rb"[ \t\n\r]*,[ \t\n\r]*")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SCOPE_SPANS: Final = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BRACKET_OR_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_SCALAR: Final = re.compile(r"[^\s,\[\]{}\":]+")
_SKIPPER: Final = json.JSONDecoder(strict=False)  # in C, ten times as fast as brackets one by one


class BrokenJson(Exception):
    """The document cannot be followed. The message says at which byte."""


class ListLayout(NamedTuple):
    """Where the spans of a ``span_json`` record lie; ``is_single`` if the record is one bare span object."""

    value: bytes
    spans: SpanParts
    is_single: bool

    def content(self, span: SpanPart) -> bytes:
        """Return the bytes of one span."""
        return self.value[span.start : span.end]

    def cut(self, span_indexes: Sequence[int]) -> bytes:
        """Return a record with only these spans, every byte of them unchanged."""
        if self.is_single and list(span_indexes) == [0]:
            return self.value
        spans = (self.spans[index] for index in ascending(span_indexes))
        return _wrapped(b"", b"spans", list(pieces(self.value, spans, is_gap=_GAP.fullmatch)))


def lay_out_request(value: bytes) -> RequestLayout:
    """Return the layout of an OTLP/JSON request. Raises ``BrokenJson`` if its frame cannot be followed."""
    text = value.decode("latin-1")
    request = _parted(text, _skipped(text, 0), ("resourceSpans", "resource_spans"), _resource_spans)
    _check_nothing_follows(text, request.end)
    spans = SpanParts()
    layout = RequestLayout(value, _FRAMING, resources=[], scopes=[], spans=spans)
    for resource in request.elements:
        for scope in resource.elements:
            for _, start, _, end in scope.elements:
                spans.add(len(layout.scopes), start, start, end)
            layout.scopes.append(ScopePart(len(layout.resources), scope.wrapper))
        layout.resources.append(resource.wrapper)
    return layout


def lay_out_spans(value: bytes) -> ListLayout:
    """Return the layout of a ``span_json`` record: ``{"spans": […]}``, or one span. Raises ``BrokenJson``."""
    text = value.decode("latin-1")
    start = _skipped(text, 0)
    parted = _parted(text, start, ("spans",), _values)
    _check_nothing_follows(text, parted.end)
    spans = parted.elements
    is_single = "trace_id" in parted.names or "spans" not in parted.names
    if is_single or not isinstance(spans, SpanParts):
        spans = SpanParts()
    if is_single:
        spans.add(0, start, start, parted.end)
    return ListLayout(value, spans, is_single)


class _Parted(NamedTuple):
    """An object split at one of its arrays: the other members, the elements, the names of all members, and where it
    ends.
    """

    wrapper: bytes
    elements: Sequence[Any]
    names: frozenset[str]
    end: int


_ReadArray: TypeAlias = Callable[[str, int], tuple[Sequence[Any], int]]
"""Reads the array at a byte: returns its elements, and the byte after it."""


def _resource_spans(text: str, at: int) -> tuple[Sequence[_Parted], int]:
    return _parted_elements(text, at, _SCOPE_SPANS, _scope_spans)


def _scope_spans(text: str, at: int) -> tuple[Sequence[_Parted], int]:
    return _parted_elements(text, at, ("spans",), _values)


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
    arrays: dict[str, Sequence[Any]] = {}
    at = _skipped(text, _expected(text, at, "{"))
    while text[at : at + 1] != "}":
        token = _STRING.match(text, at)
        if token is None:
            raise BrokenJson(f"the name of a member is missing at byte {at}")
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
        raise BrokenJson(f"the document ends at byte {at}, and more follows")


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
        raise BrokenJson(f"a value is missing at byte {at}")
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
    raise BrokenJson(f"the bracket at byte {at} does not close")


def _after_comma(text: str, at: int, closing: str) -> int:
    at = _skipped(text, at)
    if text[at : at + 1] == closing:
        return at
    return _skipped(text, _expected(text, at, ","))


def _expected(text: str, at: int, character: str) -> int:
    if text[at : at + 1] != character:
        raise BrokenJson(f"“{character}” is missing at byte {at}")
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


_FRAMING: Final = Framing(
    scope=lambda wrapper, spans: _wrapped(wrapper, b"spans", spans),
    resource=lambda wrapper, scopes: _wrapped(wrapper, b"scopeSpans", scopes),
    request=lambda resources: _wrapped(b"", b"resourceSpans", resources),
    is_gap=_GAP.fullmatch,
)
