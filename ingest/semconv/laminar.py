"""Laminar: its attributes outside the GenAI conventions and those of OpenLLMetry, from which it comes."""

from __future__ import annotations

from typing import Any, Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.chats import SAID_INPUTS_IN_JSON, SAID_OUTPUTS_IN_JSON, TOOLS_OF_REQUEST
from ingest.semconv.rows import Convention, Converter, Row

_PROPERTIES = "lmnr.association.properties."
_COSTS = "metrics.costs.incremental."

_TYPES: Final = {
    "DEFAULT": "task",
    "EVALUATION": "task",
    "EVALUATOR": "task",
    "EXECUTOR": "task",
    "LLM": "chat",
    "TOOL": "tool",
}


def _metadata(sent: Value) -> dict[str, Any]:
    return {name: to.parsed_if_json(member) for name, member in to.METADATA.read(sent).items()}


_METADATA = Converter("the members of the object, parsed where they are JSON of an object or array", _metadata)

LAMINAR: Final = Convention(
    "laminar",
    "Laminar",
    (
        Row("lmnr.span.type", "type.span", to.word(_TYPES)),
        Row("lmnr.span.input", "data.inputs", SAID_INPUTS_IN_JSON),
        Row("lmnr.span.output", "data.outputs", SAID_OUTPUTS_IN_JSON),
        Row("lmnr.span.input", "data.parameters.tools", TOOLS_OF_REQUEST),
        Row("gen_ai.usage.input_cost", _COSTS + "prompt", to.AMOUNT),
        Row("gen_ai.usage.output_cost", _COSTS + "completion", to.AMOUNT),
        Row(_PROPERTIES + "session_id", "session.id", to.TEXT),
        Row(_PROPERTIES + "user_id", "user.id", to.TEXT),
        Row(_PROPERTIES + "tags", "tags.*", to.TAGS),
        Row(_PROPERTIES + "metadata.*", "meta.*", _METADATA, note="except names that `ag.meta` uses itself"),
    ),
)
