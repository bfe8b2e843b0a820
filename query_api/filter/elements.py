"""Elements of ``links references events hashes``: what a filter may say of one, and when it matches (contract §3.2, reference §5.6).

A *partial* element in normal form is a mapping of members to the values that they must have, each in the form in which
answers show it: ids and times in their one spelling, texts as texts. A member below ``attributes.`` is looked for as one key
with its dots, as events and links keep them, and where that is absent step by step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from common.errors import InvalidFilter
from common.times import format_us
from query_api.filter.fields import Field
from query_api.filter.operands import (
    Reader,
    check_size,
    read_json,
    read_list,
    read_span_id,
    read_text,
    read_time_ns,
    read_trace_id,
    read_uuid,
)
from query_api.filter.values import is_number, same

ATTRIBUTES: Final = "attributes"
BELOW_ATTRIBUTES: Final = "attributes."

_SLUG: Final = re.compile(r"[a-zA-Z0-9_\-][a-zA-Z0-9_.\-]*")


def _shown_span_id(value: Any, at: str) -> str:
    return read_span_id(value, at)[-16:]


def _shown_time(value: Any, at: str) -> str:
    time_us = read_time_ns(value, at) // 1000
    try:
        return format_us(time_us)
    except OverflowError as exc:  # a zone may lead out of the years that there are in UTC
        raise InvalidFilter(at, "a time outside the years 1 to 9999.") from exc


def _nanoseconds(value: Any, at: str) -> str:
    return str(read_time_ns(value, at))


def _slug(value: Any, at: str) -> str:
    text = read_text(value, at)
    if _SLUG.fullmatch(text) is None:
        raise InvalidFilter(at, "a slug is letters, digits, '_', '-' and '.', the last not at its beginning.")
    return text


def _count(value: Any, at: str) -> Any:
    if not is_number(value):
        raise InvalidFilter(at, "a number is legal here.")
    return read_json(value, at)


def _object(value: Any, at: str) -> Any:
    if not isinstance(value, dict):
        raise InvalidFilter(at, "'attributes' is an object; one of them is named by attributes.<name>.")
    return read_json(value, at)


_MEMBERS: Final[Mapping[str, Mapping[str, Reader]]] = {
    "links": {
        "trace_id": read_trace_id,
        "span_id": _shown_span_id,
        "trace_state": read_text,
        "flags": _count,
        "dropped_attributes_count": _count,
        ATTRIBUTES: _object,
    },
    "references": {"id": read_uuid, "slug": _slug, "version": read_text, ATTRIBUTES: _object},
    "events": {
        "name": read_text,
        "timestamp": _shown_time,
        "time_unix_nano": _nanoseconds,
        "dropped_attributes_count": _count,
        ATTRIBUTES: _object,
    },
    "hashes": {"id": read_uuid, ATTRIBUTES: _object},
}
"""The members that answers show of an element, and what reads a value of each."""

_TAKEN: Final[Mapping[str, str]] = {
    "links": "one or more (possibly partial) links",
    "references": "one or more (possibly partial) references",
    "events": "one or more (possibly partial) events",
    "hashes": "one or more hash ids or partial hashes",
}


def read_partials(field: Field, value: Any, at: str) -> list[dict[str, Any]]:
    """The operand of ``in``: partial elements in normal form."""
    if not isinstance(value, list):
        raise InvalidFilter(at, f"'{field.name}' value must be {_TAKEN[field.name]}.")
    return read_list(value, at, read=lambda each, where: _partial(field, each, where))


def read_pair(field: Field, key: str | None, value: Any, path: str) -> list[dict[str, Any]]:
    """The operand of ``has``, as that of ``in``: one element with one member."""
    is_hash_id = field.name == "hashes" and key == "id"
    if key is None or not (key.startswith(BELOW_ATTRIBUTES) or is_hash_id):
        legal = "'id' or dot notation under 'attributes'" if field.name == "hashes" else "a string in dot notation"
        start = "" if field.name == "hashes" else " starting with 'attributes'"
        raise InvalidFilter(f"{path}.key", f"'{field.name}' key must be {legal}{start}.")
    check_size(key, f"{path}.key")
    return [{key: _member(field, key, value, f"{path}.value")}]


def _partial(field: Field, value: Any, at: str) -> dict[str, Any]:
    if field.name == "hashes" and isinstance(value, str):
        return {"id": read_uuid(value, at)}
    if not isinstance(value, dict):
        raise InvalidFilter(at, f"'{field.name}' value must be {_TAKEN[field.name]}.")
    check_size(value, at)
    return {name: _member(field, name, member, f"{at}.{name[:64]}") for name, member in value.items()}


def _member(field: Field, name: str, value: Any, at: str) -> Any:
    members = _MEMBERS[field.name]
    read = read_json if name.startswith(BELOW_ATTRIBUTES) else members.get(name)
    if read is None:
        raise InvalidFilter(
            at, f"no member of '{field.name}' is '{name[:64]}'; legal: {', '.join(members)}, attributes.<name>."
        )
    if value is None:
        raise InvalidFilter(at, "a member of an element is never null; leave out what may have any value.")
    return read(value, at)


def element_matches(element: Mapping[str, Any], partial: Mapping[str, Any]) -> bool:
    """Whether an element, as answers show it, has every member of a partial one."""
    return all(same(_member_of(element, name), wanted) for name, wanted in partial.items())


def _member_of(element: Mapping[str, Any], name: str) -> Any:
    if not name.startswith(BELOW_ATTRIBUTES):
        return element.get(name)
    attributes, key = element.get(ATTRIBUTES) or {}, name.removeprefix(BELOW_ATTRIBUTES)
    found = attributes.get(key)
    return _below(attributes, key.split(".")) if found is None else found


def _below(value: Any, keys: list[str]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
