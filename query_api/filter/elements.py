"""Operands on ``links references events hashes``, which are arrays of objects (reference §5.6).

A *partial* element maps members to the values that they must have, each in the form that responses show: ids and times
in their one spelling, texts as texts. A member below ``attributes.`` is one key with its dots, as events and links keep
them, or, where that is absent, a path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from common.errors import InvalidFilter
from common.json_values import is_number
from common.times import format_us
from query_api.filter.language import ATTRIBUTES, Field
from query_api.filter.operands import (
    Reader,
    check_size,
    read_json,
    read_list,
    read_span_id,
    read_text,
    read_time,
    read_time_ns,
    read_trace_id,
    read_uuid,
    type_name,
)

BELOW_ATTRIBUTES: Final = f"{ATTRIBUTES}."
"""The prefix of a member of an element that is one of its attributes."""

_SLUG: Final = re.compile(r"[a-zA-Z0-9_\-][a-zA-Z0-9_.\-]*")


def read_partials(field: Field, value: Any, at: str) -> list[dict[str, Any]]:
    """Read the operand of ``in``: a list of partial elements."""
    if not isinstance(value, list):
        raise InvalidFilter(at, f"'{field.name}' value must be {_TAKEN[field.name]}.")
    return read_list(value, at, partial(_read_partial, field))


def read_keyed_member(field: Field, key: str | None, value: Any, path: str) -> list[dict[str, Any]]:
    """Read ``key`` and ``value`` of ``has`` as the operand of ``in``: one partial element with one member."""
    is_hash_id = field.name == "hashes" and key == "id"
    if key is None or not (key.startswith(BELOW_ATTRIBUTES) or is_hash_id):
        allowed = "'id' or dot notation under 'attributes'" if field.name == "hashes" else "a string in dot notation"
        start = "" if field.name == "hashes" else " starting with 'attributes'"
        raise InvalidFilter(f"{path}.key", f"'{field.name}' key must be {allowed}{start}.")
    check_size(key, f"{path}.key")
    return [{key: _read_member(field, key, value, f"{path}.value")}]


def _read_partial(field: Field, value: Any, at: str) -> dict[str, Any]:
    if field.name == "hashes" and isinstance(value, str):
        return {"id": read_uuid(value, at)}
    if not isinstance(value, dict):
        raise InvalidFilter(at, f"'{field.name}' value must be {_TAKEN[field.name]}.")
    check_size(value, at)
    return {name: _read_member(field, name, member, f"{at}.{name[:64]}") for name, member in value.items()}


def _read_member(field: Field, name: str, value: Any, at: str) -> Any:
    members = _MEMBERS[field.name]
    read = read_json if name.startswith(BELOW_ATTRIBUTES) else members.get(name)
    if read is None:
        raise InvalidFilter(
            at, f"'{name[:64]}' is not a member of '{field.name}'; allowed: {', '.join(members)}, attributes.<name>."
        )
    if value is None:
        raise InvalidFilter(at, "a member of an element must not be null; omit a member that may have any value.")
    return read(value, at)


def _read_short_span_id(value: Any, at: str) -> str:
    return read_span_id(value, at)[-16:]


def _read_timestamp(value: Any, at: str) -> str:
    time_us = read_time(value, at)
    try:
        return format_us(time_us)
    except OverflowError as exc:  # a time zone may lead out of the years that UTC has
        raise InvalidFilter(at, "the time is outside the years 1 to 9999.") from exc


def _read_slug(value: Any, at: str) -> str:
    text = read_text(value, at)
    if _SLUG.fullmatch(text) is None:
        raise InvalidFilter(at, "a slug consists of letters, digits, '_', '-' and '.', and does not begin with '.'.")
    return text


def _read_count(value: Any, at: str) -> Any:
    if not is_number(value):
        raise InvalidFilter(at, f"the value must be a number; got {type_name(value)}.")
    return read_json(value, at)


def _read_attributes(value: Any, at: str) -> Any:
    if not isinstance(value, dict):
        raise InvalidFilter(at, "'attributes' must be an object; attributes.<name> selects one of them.")
    return read_json(value, at)


_MEMBERS: Final[Mapping[str, Mapping[str, Reader]]] = {
    "links": {
        "trace_id": read_trace_id,
        "span_id": _read_short_span_id,
        "trace_state": read_text,
        "flags": _read_count,
        "dropped_attributes_count": _read_count,
        ATTRIBUTES: _read_attributes,
    },
    "references": {"id": read_uuid, "slug": _read_slug, "version": read_text, ATTRIBUTES: _read_attributes},
    "events": {
        "name": read_text,
        "timestamp": _read_timestamp,
        "time_unix_nano": lambda value, at: str(read_time_ns(value, at)),
        "dropped_attributes_count": _read_count,
        ATTRIBUTES: _read_attributes,
    },
    "hashes": {"id": read_uuid, ATTRIBUTES: _read_attributes},
}
"""The members of each element in responses, and the reader of each."""

_TAKEN: Final[Mapping[str, str]] = {
    "links": "one or more (possibly partial) links",
    "references": "one or more (possibly partial) references",
    "events": "one or more (possibly partial) events",
    "hashes": "one or more hash ids or partial hashes",
}
