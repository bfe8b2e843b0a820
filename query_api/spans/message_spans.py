"""Message spans: those that only pass on a message, from the structure of their attributes and from their place.

Two kinds: a ``task`` of a runtime that passes messages between agents, and a span of the Model Context Protocol (MCP)
that repeats the call of the span above it. A call over MCP has a span of the client and, below it, one of the server;
the SDK may add one between them. All of them are one step.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from common.span import SpanKind, StatusCode
from query_api.spans.versions import integers_of, values_of

_STRUCTURE: Final = r"replaceAll(attributes_template, '\0', 'null')"
_IS_QUIET: Final = (
    f"status_code != {StatusCode.STATUS_CODE_ERROR.value} AND errors = 0 AND tokens_total = 0 AND costs_total = 0"
)
_HAS_NO_DATA: Final = f"JSONLength({_STRUCTURE}, 'ag', 'data') = 0"

IS_MESSAGE: Final = (
    f"span_type = 'task' AND parent_id != toFixedString('', 16) AND {_IS_QUIET}"
    """ AND position(attributes_template, '"messaging":{') > 0"""  # fast, so that few texts are parsed
    f" AND JSONType({_STRUCTURE}, 'messaging') = 'Object' AND {_HAS_NO_DATA}"
)
"""1 for a ``task`` below another span that has attributes ``messaging.*``, and neither inputs, outputs, usage nor an
error of its own."""

_MCP, _CLIENT, _QUIET, _DATA = 1, 2, 4, 8
_KINDS: Final = (SpanKind.SPAN_KIND_SERVER.value, SpanKind.SPAN_KIND_CLIENT.value)
_MCP_TRAITS: Final = (
    f"if(kind IN {_KINDS}"
    """ AND position(attributes_template, '"mcp":{') > 0"""
    f" AND JSONHas({_STRUCTURE}, 'mcp', 'method', 'name') = 1,"
    f" {_MCP} + if(kind = {SpanKind.SPAN_KIND_CLIENT.value}, {_CLIENT}, 0) + if({_IS_QUIET}, {_QUIET}, 0)"
    f" + if({_HAS_NO_DATA}, 0, {_DATA}), 0)"
)
"""What the span of a client or a server of MCP is, as the sum of its traits; 0 for other spans."""

MESSAGE_COLUMNS: Final = (f"{IS_MESSAGE} AS is_message", f"{_MCP_TRAITS} AS mcp_traits")


def message_places(rows: pa.Table) -> np.ndarray[Any, Any]:
    """Return the places of the message spans of a trace, ascending. ``rows`` have the columns ``MESSAGE_COLUMNS``,
    ``span_id``, ``parent_id`` and ``name``, one row for each span.
    """
    is_message = integers_of(rows, "is_message") != 0
    places = np.flatnonzero(integers_of(rows, "mcp_traits"))
    if len(places) > 1:
        is_message[places[_repeat_calls(rows.take(pa.array(places)))]] = True
    return np.flatnonzero(is_message)


def _repeat_calls(rows: pa.Table) -> list[int]:
    """Return the places of the spans of MCP that repeat the call of their parent, a client's span of MCP.

    They say nothing of their own: no usage, no error, and inputs or outputs only where the parent has some, too.
    """
    names, parent_ids = values_of(rows, "name"), values_of(rows, "parent_id")
    traits = integers_of(rows, "mcp_traits").tolist()
    clients = {span_id: at for at, span_id in enumerate(values_of(rows, "span_id")) if traits[at] & _CLIENT}
    places = []
    for at, parent_id in enumerate(parent_ids):
        parent = clients.get(parent_id)
        if parent is None or parent == at or not traits[at] & _QUIET:
            continue
        if _name_one_call(names[at], names[parent]) and (traits[parent] & _DATA or not traits[at] & _DATA):
            places.append(at)
    return places


def _name_one_call(one: bytes, other: bytes) -> bool:
    """Return whether two names name the same call: ``tools/call greet`` and ``MCP send tools/call greet``."""
    shorter, longer = sorted((one, other), key=len)
    return longer == shorter or longer.endswith(b" " + shorter)
