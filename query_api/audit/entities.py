"""Which things a change was about: ids from its path, ids and slugs from its response.

Nothing else that a client sends is recorded: a text in a path may be a key that somebody pasted there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from common.postgres.audit import Entities

ENTITIES_MAX: Final = 10
"""Things of one entry."""

RESPONSE_BYTES_MAX: Final = 256 * 1_024
"""A longer response is not read: the ids of the path stand for it."""

SLUG_CHARACTERS_MAX: Final = 200
_LEVELS: Final = 6
_FREE: Final = frozenset({"attributes", "data", "flags", "links", "meta", "references", "tags"})
"""Members with what a client sent: an id there is not of the thing that was changed."""

_ID: Final = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|[0-9a-f]{16}"
    r"|[0-9]{1,10}-[0-9]{1,20}-[0-9a-f]{16}",
    re.I,
)
"""A UUID, a trace or span id, the id of a dead letter."""


def entities_of_path(path: Mapping[str, str]) -> Entities:
    """Return the ids in the segments of a path."""
    return [{"id": text.lower()} for text in path.values() if _ID.fullmatch(text)]


def entities_of_response(body: bytes) -> Entities:
    """Return the ids and slugs of what a response shows, at most ``ENTITIES_MAX``; none if it is long or no JSON."""
    if len(body) > RESPONSE_BYTES_MAX:
        return []
    try:
        value = orjson.loads(body)
    except ValueError:
        return []
    found: dict[str, dict[str, str]] = {}
    for entity in _found_in(value, _LEVELS):
        found.setdefault(entity["id"], entity)
        if len(found) >= ENTITIES_MAX:
            break
    return list(found.values())


def united(*groups: Entities) -> Entities:
    """Return what the groups name, each thing once, at most ``ENTITIES_MAX``."""
    by_id = {entity["id"]: entity for group in groups for entity in group}
    return list(by_id.values())[:ENTITIES_MAX]


def _found_in(value: Any, levels: int) -> Iterator[dict[str, str]]:
    """Yield every object with an id, but not what is below one: a revision refers to others."""
    if isinstance(value, list) and levels:
        for each in value:
            yield from _found_in(each, levels - 1)
    if not isinstance(value, dict) or not levels:
        return
    entity_id, slug = value.get("id"), value.get("slug")
    if isinstance(entity_id, str) and _ID.fullmatch(entity_id):
        is_short = isinstance(slug, str) and len(slug) <= SLUG_CHARACTERS_MAX
        yield {"id": entity_id, "slug": str(slug)} if is_short else {"id": entity_id}
        return
    for name, each in value.items():
        if name not in _FREE:
            yield from _found_in(each, levels - 1)
