"""What a span refers to: the keys there are, the cleaning of one reference, the array that answers show (§3.2, §3.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from ingest.json_text import scalar_text

REFERENCE_KEYS = frozenset(
    {"testcase"}
    | {
        kind + part
        for kind in ("testset", "query", "workflow", "application", "evaluator", "environment", "snippet")
        for part in ("", "_variant", "_revision")
    }
)

_SLUG = re.compile(r"[a-zA-Z0-9_\-][a-zA-Z0-9_.\-]*")
_UUID = re.compile(r"(?:0x)?([0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)


def clean_reference(sent: Mapping[str, Any]) -> dict[str, str]:
    """Its ``id``, ``slug`` and ``version`` as texts, as far as they make sense; it may be empty.

    An id in any spelling of a UUID becomes the dashed one; other text stays. A slug that cannot be one is dropped.
    """
    members = {name: text for name in ("id", "slug", "version") if (text := scalar_text(sent.get(name))) is not None}
    if "id" in members:
        members["id"] = _dashed(members["id"]) or members["id"]
    if "slug" in members and not _SLUG.fullmatch(members["slug"]):
        del members["slug"]
    return members


def references_of(cleaned: Mapping[str, dict[str, str]]) -> list[dict[str, Any]]:
    """The array of a span whose ``ag.references`` are these: one element a key, in their order."""
    return [_element(reference, attributes={"key": key}) for key, reference in cleaned.items()]


def references_sent(sent: Sequence[Any]) -> list[dict[str, Any]]:
    """The array of a span that sent this one: each element cleaned, its attributes kept."""
    return [
        _element(clean_reference(element), attributes=element.get("attributes"))
        for element in sent
        if isinstance(element, dict)
    ]


def _element(reference: dict[str, str], *, attributes: Any) -> dict[str, Any]:
    """An array's ids are UUIDs: clients read them as such. Another id stays in ``ag.references`` alone."""
    element: dict[str, Any] = {
        name: text for name, text in reference.items() if name != "id" or _dashed(text) is not None
    }
    if isinstance(attributes, dict):
        element["attributes"] = attributes
    return element


def _dashed(text: str) -> str | None:
    found = _UUID.fullmatch(text)
    return str(UUID(found[1])) if found else None
