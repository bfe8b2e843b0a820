"""LangSmith's OpenTelemetry export of LangChain, LangGraph and its own decorators.

Runs are under the GenAI conventions, with inputs and outputs as JSON in ``gen_ai.prompt`` and ``gen_ai.completion``
(``genai.py``), and have attributes of their own.
"""

from __future__ import annotations

from typing import Any, Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.rows import Convention, Converter, Row
from ingest.semconv.usage import TOKENS_USED

_METADATA = "langsmith.metadata."
_THREAD_NOTE = "the first of `session_id`, `thread_id`, `conversation_id`"
_TOKENS = "metrics.tokens.incremental.*"

_KINDS: Final = {
    "chain": "chain",
    "embedding": "embedding",
    "llm": "chat",
    "parser": "task",
    "prompt": "task",
    "retriever": "query",
    "tool": "tool",
}


def _tags(sent: Value) -> dict[str, bool]:
    """Return the tags of a list, or of a text that separates them with commas."""
    is_separated = isinstance(sent, str) and not sent.startswith("[")
    tags: dict[str, bool] = to.TAGS.read([tag.strip() for tag in str(sent).split(",")] if is_separated else sent)
    return tags


def _details_of(side: str) -> Converter:
    """Return a converter of details of usage, which LangSmith writes as Python shows them."""

    def read(sent: Value) -> dict[str, Any]:
        details = to.structured(sent.replace("'", '"').replace("None", "null") if isinstance(sent, str) else sent)
        found: dict[str, Any] = TOKENS_USED.read({side: details})
        return found

    return Converter("the counts of tokens in an object, as JSON or as Python shows it", read)


LANGSMITH: Final = Convention(
    "langsmith",
    "LangSmith",
    (
        Row("langsmith.span.kind", "type.span", to.word(_KINDS)),
        Row("gen_ai.usage.input_token_details", _TOKENS, _details_of("input_token_details")),
        Row("gen_ai.usage.output_token_details", _TOKENS, _details_of("output_token_details")),
        Row(_METADATA + "usage_metadata", _TOKENS, TOKENS_USED),
        Row(_METADATA + "ls_temperature", "meta.request.temperature", to.NUMBER),
        Row(_METADATA + "ls_max_tokens", "meta.request.max_tokens", to.COUNT),
        Row("langsmith.request.streaming", "meta.request.stream", to.AS_SENT),
        Row(_METADATA + "conversation_id", "session.id", to.TEXT, note=_THREAD_NOTE),
        Row(_METADATA + "thread_id", "session.id", to.TEXT, note=_THREAD_NOTE),
        Row(_METADATA + "session_id", "session.id", to.TEXT, note=_THREAD_NOTE),
        Row(_METADATA + "user_id", "user.id", to.TEXT),
        Row(
            "langsmith.span.tags",
            "tags.*",
            Converter(
                "an object: each text, or part of a text between commas, becomes a tag with the value `true`", _tags
            ),
        ),
        Row(_METADATA + "*", "meta.*", to.METADATA, note="except names that `ag.meta` uses itself"),
    ),
)
