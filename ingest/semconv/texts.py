"""Texts that were embedded and documents that were found, from OpenInference's numbered attributes."""

from __future__ import annotations

from typing import Any

from common.span import Value
from ingest.semconv.converters import elements_of, parsed_if_json
from ingest.semconv.rows import NOT_TEXT, Converter, MappingError


def _members_of(sent: Value) -> list[Any]:
    """The elements of an array, numbered members included where some are missing. Raises ``MappingError``."""
    found = elements_of(sent)
    if not isinstance(found, list):
        raise MappingError(NOT_TEXT)
    return found


def _embedded(sent: Value) -> dict[str, Any] | None:
    inner = [each.get("embedding") for each in _members_of(sent) if isinstance(each, dict)]
    texts = [each["text"] for each in inner if isinstance(each, dict) and isinstance(each.get("text"), str)]
    return {"value": texts} if texts else None


def _documents(sent: Value) -> dict[str, Any] | None:
    inner = [each.get("document") for each in _members_of(sent) if isinstance(each, dict)]
    documents = [
        {name: parsed_if_json(member, levels_max=20) if name == "metadata" else member for name, member in each.items()}
        for each in inner
        if isinstance(each, dict)
    ]
    return {"documents": documents} if documents else None


EMBEDDED_TEXTS = Converter("the texts that were embedded, as `value`", _embedded)
DOCUMENTS = Converter("the documents, as `documents`", _documents)
