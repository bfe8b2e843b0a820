"""Mapping the attributes of one span, without the plans that the worker keeps."""

from __future__ import annotations

from typing import Any

from ingest.semconv import engine


def map_attributes(flat: dict[str, Any], nested: dict[str, Any]) -> engine.Mapped | None:
    """Return what ``flat`` means under ``ag``; ``nested`` are the same attributes, nested."""
    return engine.map_attributes(engine.mapping_of(tuple(flat)), flat, nested, engine.mapping_of)
