"""Langfuse's SDKs, which are OpenTelemetry SDKs since version 3 of Python and 4 of JavaScript: each span is an
observation. Values are JSON, except texts.
"""

from __future__ import annotations

from typing import Any, Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.chats import SAID_INPUTS, SAID_OUTPUTS, TOOLS_OF_REQUEST
from ingest.semconv.rows import Convention, Converter, Row
from ingest.semconv.usage import COSTS_GIVEN, TOKENS_USED

_OBSERVATION = "langfuse.observation."
_META_NOTE = "except names that `ag.meta` uses itself"
_MODEL_NOTE = "Langfuse has one name: requested, and after the response the one that responded"
_SAME_SPAN = r"langfuse\.observation\.type"
_FAILED: Final = "ERROR"
_NO_LIMIT: Final = "Infinity"

_TYPES: Final = {
    "agent": "agent",
    "chain": "chain",
    "embedding": "embedding",
    "evaluator": "task",
    "event": "task",
    "generation": "chat",
    "guardrail": "task",
    "retriever": "query",
    "span": "task",
    "tool": "tool",
}


def _settings(sent: Value) -> dict[str, Any]:
    """Return the settings without those that set no limit: Langfuse writes them for each call."""
    return {name: member for name, member in to.SETTINGS.read(sent).items() if member != _NO_LIMIT}


def _failure(level: Value, message: Value) -> dict[str, str] | None:
    if level != _FAILED:
        return None
    text = None if message is None else to.as_text(message)
    return {} if text is None else {"message": text}


_SETTINGS = Converter("the settings under their normalized names, without limits that are `Infinity`", _settings)
_TIME = Converter("the time, a text in JSON", lambda value: to.as_text(to.parsed_value(value)))
_FAILURE = Converter("the message, if the level is `ERROR`", _failure)

LANGFUSE: Final = Convention(
    "langfuse",
    "Langfuse",
    (
        Row(_OBSERVATION + "type", "type.span", to.word(_TYPES)),
        Row("langfuse.trace.input", "data.inputs", SAID_INPUTS, note="if the span has no other", requires=_SAME_SPAN),
        Row(
            "langfuse.trace.output", "data.outputs", SAID_OUTPUTS, note="if the span has no other", requires=_SAME_SPAN
        ),
        Row(_OBSERVATION + "input", "data.inputs", SAID_INPUTS),
        Row(_OBSERVATION + "output", "data.outputs", SAID_OUTPUTS),
        Row(_OBSERVATION + "input", "data.parameters.tools", TOOLS_OF_REQUEST),
        Row(_OBSERVATION + "prompt.name", "data.parameters.prompt_template.name", to.TEXT),
        Row(_OBSERVATION + "prompt.version", "data.parameters.prompt_template.version", to.AS_SENT),
        Row(_OBSERVATION + "model.parameters", "meta.request.*", _SETTINGS),
        Row(_OBSERVATION + "model.name", "meta.request.model", to.TEXT, note=_MODEL_NOTE),
        Row(_OBSERVATION + "model.name", "meta.response.model", to.TEXT),
        Row(_OBSERVATION + "completion_start_time", "meta.response.completion_start_time", _TIME),
        Row(_OBSERVATION + "usage_details", "metrics.tokens.incremental.*", TOKENS_USED),
        Row(_OBSERVATION + "cost_details", "metrics.costs.incremental.*", COSTS_GIVEN),
        Row((_OBSERVATION + "level", _OBSERVATION + "status_message"), "exception", _FAILURE),
        Row("langfuse.session.id", "session.id", to.TEXT),
        Row("langfuse.user.id", "user.id", to.TEXT),
        Row("langfuse.trace.tags", "tags.*", to.TAGS),
        Row("langfuse.trace.metadata.*", "meta.*", to.JSON_METADATA, note=_META_NOTE),
        Row(_OBSERVATION + "metadata.*", "meta.*", to.JSON_METADATA, note=_META_NOTE),
    ),
)
