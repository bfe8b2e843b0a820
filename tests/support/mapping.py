"""Mapping the attributes of one span, without the plans that the worker keeps."""

from __future__ import annotations

from typing import Any

from ingest.semconv import engine
from ingest.semconv.key_mapping import mapping_of


def map_attributes(flat: dict[str, Any], nested: dict[str, Any]) -> engine.Mapped | None:
    """Return what ``flat`` means under ``ag``; ``nested`` are the same attributes, nested."""
    return engine.map_attributes(mapping_of(tuple(flat)), flat, lambda: nested, mapping_of)
