"""What went wrong in a span, as ``ag.exception``: the one place to ask, however an instrumentation says it.

Some record an ``exception`` event, some say ``error.type`` and a status, some a status alone. An event is one on any
span; the others are read where the span speaks a convention, for a status alone says little about spans of other kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from common.span import Attributes, Span, StatusCode
from ingest.json_text import scalar_text

EXCEPTION_EVENT: Final = "exception"
_STOPPED_BY_ERROR: Final = "error"


def failure_of(span: Span, nested: Attributes, mapped: Mapping[str, Any] | None) -> dict[str, str] | None:
    """``{type?, message?}`` of what went wrong; ``None`` where nothing did.

    The last exception event counts, what it leaves out is taken from ``error.type`` and the status. ``nested`` are the
    span's attributes, ``mapped`` is what its convention says, if it speaks one.
    """
    if mapped is None and not span.events:
        return None
    event = next((each for each in reversed(span.events) if each.name == EXCEPTION_EVENT), None)
    error_type = _error_type(nested)
    if event is None and (mapped is None or not (error_type or _is_failed(span, mapped))):
        return None
    said = {} if event is None else event.attributes
    members = {
        "type": scalar_text(said.get("exception.type")) or error_type,
        "message": scalar_text(said.get("exception.message")) or span.status_message,
    }
    return {name: text for name, text in members.items() if text}


def _error_type(nested: Attributes) -> str | None:
    """``error.type``, which stays dotted beside an ``error`` that is no object, as OpenTracing has it."""
    error = nested.get("error")
    return scalar_text(error.get("type") if isinstance(error, dict) else nested.get("error.type"))


def _is_failed(span: Span, mapped: Mapping[str, Any]) -> bool:
    if span.status_code == StatusCode.STATUS_CODE_ERROR:
        return True
    return _STOPPED_BY_ERROR in mapped.get("meta", {}).get("response", {}).get("finish_reasons", ())
