"""Pydantic AI and Logfire: attributes outside the GenAI conventions. Keys without a prefix count only next to prefixed
ones.
"""

from __future__ import annotations

from typing import Final

from ingest.semconv import converters as to
from ingest.semconv.chats import EVENTS, WHOLE_CONVERSATION
from ingest.semconv.rows import Convention, Row
from ingest.semconv.tools import TOOLS_OF_REQUEST

_SAME_SPAN = r"logfire\.|gen_ai\.|pydantic_ai\."
_OLD = "1"

PYDANTIC_AI: Final = Convention(
    "pydantic-ai",
    "Pydantic AI",
    (
        Row("agent_name", "type.span", to.always("agent"), requires=_SAME_SPAN, unless=r"gen_ai\.operation\.name"),
        Row("model_name", "meta.request.model", to.TEXT, requires=_SAME_SPAN),
        Row("events", "data.*", EVENTS, generations=_OLD, requires=_SAME_SPAN),
        Row(
            ("all_messages_events", "gen_ai.system_instructions"),
            "data.*",
            WHOLE_CONVERSATION,
            generations=_OLD,
            requires=r"all_messages_events",
        ),
        Row(
            ("pydantic_ai.all_messages", "gen_ai.system_instructions"),
            "data.*",
            WHOLE_CONVERSATION,
            generations="2",
            requires=r"pydantic_ai\.all_messages",
        ),
        Row("final_result", "data.outputs", to.OUTPUTS, requires=_SAME_SPAN),
        Row("tool_arguments", "data.inputs", to.INPUTS, generations=_OLD, requires=_SAME_SPAN),
        Row("tool_response", "data.outputs", to.OUTPUTS, generations=_OLD, requires=_SAME_SPAN),
        Row(
            "model_request_parameters",
            "data.parameters.tools",
            TOOLS_OF_REQUEST,
            generations=_OLD,
            requires=_SAME_SPAN,
            unless=r"gen_ai\.tool\.definitions",
        ),
        Row("operation.cost", "metrics.costs.incremental.total", to.AMOUNT),
    ),
)
