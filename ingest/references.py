"""The references of a span: their keys, cleaning, the array in responses, and their hash (reference §3.2, §3.5,
§3.7).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any
from uuid import UUID

from common.ids import span_id_hex, trace_id_hex
from common.span import Link
from ingest.json_text import scalar_text

REFERENCE_KEYS = frozenset(
    {"testcase"}
    | {
        kind + part
        for kind in ("testset", "query", "workflow", "application", "evaluator", "environment", "snippet")
        for part in ("", "_variant", "_revision")
    }
)

_HASHED_KEYS = REFERENCE_KEYS - {"testset_variant", "testset_revision"}
_SLUG = re.compile(r"[a-zA-Z0-9_\-][a-zA-Z0-9_.\-]*")
_UUID = re.compile(r"(?:0x)?([0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)


def clean_reference(sent: Mapping[str, Any]) -> dict[str, str]:
    """Return its ``id``, ``slug`` and ``version`` as texts, as far as they are valid; the result may be empty.

    An id in any spelling of a UUID becomes the dashed one; other text stays. An invalid slug is dropped.
    """
    members = {name: text for name in ("id", "slug", "version") if (text := scalar_text(sent.get(name))) is not None}
    if "id" in members:
        members["id"] = _dashed(members["id"]) or members["id"]
    if "slug" in members and not _SLUG.fullmatch(members["slug"]):
        del members["slug"]
    return members


def references_of(cleaned: Mapping[str, dict[str, str]]) -> list[dict[str, Any]]:
    """Return the array of a span whose ``ag.references`` are these: one element per key, in their order."""
    return [_element(reference, attributes={"key": key}) for key, reference in cleaned.items()]


def references_sent(sent: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the array that a span sent, with each element cleaned and its attributes kept."""
    return [
        _element(clean_reference(element), attributes=element.get("attributes"))
        for element in sent
        if isinstance(element, dict)
    ]


def _element(reference: dict[str, str], *, attributes: Any) -> dict[str, Any]:
    """Keep only UUIDs as ids, because clients parse the ids of an array. Any other id stays in ``ag.references``."""
    element: dict[str, Any] = {
        name: text for name, text in reference.items() if name != "id" or _dashed(text) is not None
    }
    if isinstance(attributes, dict):
        element["attributes"] = attributes
    return element


def _dashed(text: str) -> str | None:
    found = _UUID.fullmatch(text)
    return str(UUID(found[1])) if found else None


def hashes_of(references: Sequence[Mapping[str, Any]], links: Sequence[Link]) -> list[dict[str, Any]] | None:
    """Return the ``hashes`` of a span with these references (as responses contain them) and links; ``None`` if none has
    a key.

    Spans with equal references and links have equal hashes.
    """
    hashed = _hashed_references(references) | _hashed_links(links)
    if not hashed:
        return None
    return [{"id": str(_hash(hashed)), "attributes": {"key": "indirect"}}]


def _hashed_references(references: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    hashed = {}
    for reference in references:
        key = reference.get("attributes", {}).get("key")
        identity = {name: reference[name] for name in ("id", "slug", "version") if name in reference}
        if identity and isinstance(key, str) and key in _HASHED_KEYS:
            hashed[key] = identity
    return hashed


def _hashed_links(links: Sequence[Link]) -> dict[str, dict[str, str]]:
    return {
        link.attributes["key"]: {"span_id": span_id_hex(link.span_id), "trace_id": trace_id_hex(link.trace_id)}
        for link in links
        if isinstance(link.attributes.get("key"), str)
    }


def _hash(hashed: Mapping[str, Mapping[str, str]]) -> UUID:
    text = json.dumps(hashed, sort_keys=True).encode()
    return UUID(bytes=blake2b(text.replace(b" ", b""), digest_size=16).digest())
