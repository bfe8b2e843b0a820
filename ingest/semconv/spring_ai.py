"""Spring AI: its attributes outside the GenAI conventions. Micrometer sends every value as text."""

from __future__ import annotations

from typing import Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.rows import Convention, Converter, Row

_TOOL: Final = "spring.ai.tool."
_VECTORS: Final = "db.vector.query."
_SPRING = r"spring\.ai\."
_NO_CONVERSATION: Final = "default"
"""The conversation of a memory that is given none."""

_KINDS: Final = {
    "advisor": "chain",
    "chat_client": "chain",
    "tool_call": "tool",
    "vector_store": "query",
}


def _conversation(sent: Value) -> str | None:
    text = to.as_text(sent)
    return None if text == _NO_CONVERSATION else text


_CONVERSATION = Converter("a text, unless it is `default`", _conversation)

SPRING_AI: Final = Convention(
    "spring-ai",
    "Spring AI",
    (
        Row("spring.ai.kind", "type.span", to.word(_KINDS)),
        Row("gen_ai.request.embedding.dimensions", "meta.request.dimensions", to.COUNT),
        Row(_TOOL + "definition.name", "meta.tool.name", to.TEXT),
        Row(_TOOL + "definition.description", "meta.tool.description", to.TEXT),
        Row(_TOOL + "type", "meta.tool.type", to.TEXT),
        Row(_TOOL + "call.id", "meta.tool.id", to.TEXT),
        Row(_TOOL + "call.arguments", "data.inputs", to.INPUTS),
        Row(_TOOL + "call.result", "data.outputs", to.RESULT),
        Row(_VECTORS + "content", "data.inputs", to.INPUTS, requires=_SPRING),
        Row(_VECTORS + "response.documents", "data.outputs", to.OUTPUTS, requires=_SPRING),
        Row("spring.ai.chat.client.conversation.id", "session.id", _CONVERSATION),
    ),
)
