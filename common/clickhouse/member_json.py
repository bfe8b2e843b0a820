"""The JSON texts of the members of a span that are stored as responses contain them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from common.ids import span_id_hex, trace_id_hex
from common.span import Event, Link, Resource, Scope
from common.times import format_us


def events_json(events: Sequence[Event]) -> bytes:
    """Return the member ``events`` as JSON text; empty if the span has none."""
    return orjson.dumps(list(map(_event, events))) if events else b""


def links_json(links: Sequence[Link] | None) -> bytes:
    """Return the member ``links`` as JSON text; empty if it was absent."""
    return b"" if links is None else orjson.dumps(list(map(_link, links)))


def _event(event: Event) -> dict[str, Any]:
    return {
        "name": event.name,
        "timestamp": format_us(event.time_ns // 1000),
        "time_unix_nano": str(event.time_ns),
        **_present(attributes=event.attributes, dropped_attributes_count=event.dropped_attributes_count),
    }


def _link(link: Link) -> dict[str, Any]:
    return {
        "trace_id": trace_id_hex(link.trace_id),
        "span_id": span_id_hex(link.span_id),
        **_present(
            attributes=link.attributes,
            trace_state=link.trace_state,
            flags=link.flags,
            dropped_attributes_count=link.dropped_attributes_count,
        ),
    }


def source_json(source: Resource | Scope) -> bytes:
    """Return a resource or scope as JSON text; empty if it says nothing. What was repaired is a member of its spans."""
    members = _present(**source._replace(repaired=())._asdict())
    return orjson.dumps(members) if members else b""


def repaired_json(places: Sequence[str]) -> bytes:
    """Return the member ``repaired`` as JSON text; empty if nothing was repaired."""
    return orjson.dumps(places) if places else b""


def _present(**members: Any) -> dict[str, Any]:
    """Return the members that are neither empty nor zero: the others are absent from responses."""
    return {name: member for name, member in members.items() if member}
