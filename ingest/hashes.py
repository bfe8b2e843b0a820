"""The hash that stands for what a span refers to (reference §3.7): equal for spans with equal references and links."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any
from uuid import UUID

from common.ids import span_id_hex, trace_id_hex
from common.span import Link
from ingest.references import REFERENCE_KEYS

_HASHED_KEYS = REFERENCE_KEYS - {"testset_variant", "testset_revision"}


def hashes_of(references: Sequence[Mapping[str, Any]], links: Sequence[Link]) -> list[dict[str, Any]] | None:
    """The ``hashes`` of a span with these references (as answers show them) and links; ``None`` when none has a key."""
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
