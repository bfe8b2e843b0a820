"""OpenTelemetry's GenAI conventions, from 1.27 on: what most instrumentations write today, including OpenLLMetry and AI
SDK 7.
"""

from __future__ import annotations

from typing import Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.chats import SAID_INPUTS, SAID_OUTPUTS, TOOLS_OF_REQUEST
from ingest.semconv.messages import CHAT, CHAT_WITH_INSTRUCTIONS
from ingest.semconv.rows import Convention, Converter, Row
from ingest.semconv.tools import TOOLS

_TOKENS = "metrics.tokens.incremental."
_SUMS = "metrics.tokens.cumulative."
_OLD = "until 1.36"
_ONE_TEXT = "until 1.28, and LangSmith"
_OR_NUMBERS = "unless there are numbered members"

_OPERATIONS: Final = {
    "agent_step": "task",
    "chat": "chat",
    "create_agent": "agent",
    "embeddings": "embedding",
    "execute_tool": "tool",
    "generate_content": "completion",
    "invoke_agent": "agent",
    "invoke_workflow": "workflow",
    "rerank": "rerank",
    "retrieval": "query",
    "text_completion": "completion",
}

_RESPONSE_ID: Final = "resp_"
"""The beginning of ids of OpenAI's responses. Agent Framework sends the previous one as the id of the conversation."""


def _conversation(sent: Value) -> str | None:
    text = to.as_text(sent)
    return None if text is None or text.startswith(_RESPONSE_ID) else text


_CONVERSATION = Converter("a text, unless it is the id of a response of OpenAI", _conversation)

GENAI: Final = Convention(
    "genai",
    "OpenTelemetry GenAI",
    (
        Row("gen_ai.tool.name", "type.span", to.always("tool"), unless=r"gen_ai\.operation\.name"),
        Row("gen_ai.operation.name", "type.span", to.word(_OPERATIONS)),
        Row("gen_ai.system", "meta.system", to.PROVIDER, generations=_OLD),
        Row("gen_ai.provider.name", "meta.system", to.PROVIDER),
        Row("gen_ai.openai.request.*", "meta.request.*", to.SETTINGS, generations=_OLD),
        Row("gen_ai.request.*", "meta.request.*", to.SETTINGS),
        Row("gen_ai.request.model", "meta.request.model", to.TEXT),
        Row("gen_ai.request.temperature", "meta.request.temperature", to.NUMBER),
        Row("gen_ai.request.top_p", "meta.request.top_p", to.NUMBER),
        Row("gen_ai.request.top_k", "meta.request.top_k", to.NUMBER),
        Row("gen_ai.request.max_tokens", "meta.request.max_tokens", to.COUNT),
        Row("gen_ai.request.stop_sequences", "meta.request.stop_sequences", to.TEXTS),
        Row("gen_ai.request.frequency_penalty", "meta.request.frequency_penalty", to.NUMBER),
        Row("gen_ai.request.presence_penalty", "meta.request.presence_penalty", to.NUMBER),
        Row("gen_ai.embeddings.dimension.count", "meta.request.dimensions", to.COUNT),
        Row("gen_ai.response.model", "meta.response.model", to.TEXT),
        Row("gen_ai.response.id", "meta.response.id", to.TEXT),
        Row("anthropic.message.stop_reason", "meta.response.finish_reasons", to.FINISH_REASONS_READ),
        Row("gen_ai.response.finish_reason", "meta.response.finish_reasons", to.FINISH_REASONS_READ),
        Row("gen_ai.response.finish_reasons", "meta.response.finish_reasons", to.FINISH_REASONS_READ),
        Row("gen_ai.usage.input_tokens", _TOKENS + "prompt", to.COUNT),
        Row("gen_ai.usage.output_tokens", _TOKENS + "completion", to.COUNT),
        Row("gen_ai.usage.input_tokens.cached", _TOKENS + "cached", to.COUNT, note="Sentry"),
        Row("gen_ai.usage.input_tokens.cache_write", _TOKENS + "cache_write", to.COUNT, note="Sentry"),
        Row("gen_ai.usage.output_tokens.reasoning", _TOKENS + "reasoning", to.COUNT, note="Sentry"),
        Row("gen_ai.usage.details.cached_tokens", _TOKENS + "cached", to.COUNT),
        Row("gen_ai.usage.details.cached_content_tokens", _TOKENS + "cached", to.COUNT),
        Row("gen_ai.usage.details.cache_read_input_tokens", _TOKENS + "cached", to.COUNT),
        Row("gen_ai.usage.details.cache_read_tokens", _TOKENS + "cached", to.COUNT),
        Row("gen_ai.usage.details.cache_creation_input_tokens", _TOKENS + "cache_write", to.COUNT),
        Row("gen_ai.usage.details.cache_write_tokens", _TOKENS + "cache_write", to.COUNT),
        Row("gen_ai.usage.cache_read.input_tokens", _TOKENS + "cached", to.COUNT),
        Row("gen_ai.usage.cache_write.input_tokens", _TOKENS + "cache_write", to.COUNT),
        Row("gen_ai.usage.cache_creation.input_tokens", _TOKENS + "cache_write", to.COUNT),
        Row("gen_ai.usage.details.reasoning_tokens", _TOKENS + "reasoning", to.COUNT),
        Row("gen_ai.usage.reasoning.output_tokens", _TOKENS + "reasoning", to.COUNT),
        Row("gen_ai.aggregated_usage.input_tokens", _SUMS + "prompt", to.COUNT, note="a sum, as the name says"),
        Row("gen_ai.aggregated_usage.output_tokens", _SUMS + "completion", to.COUNT, note="a sum, as the name says"),
        Row("gen_ai.usage.cost", "metrics.costs.incremental.total", to.AMOUNT),
        Row("gen_ai.conversation.id", "session.id", _CONVERSATION, unless=r"logfire\."),
        Row("gen_ai.agent.name", "unsupported.agent.name", to.TEXT),
        Row("gen_ai.agent.name", "unsupported.agent.id", to.TEXT, note="if there is no id"),
        Row("gen_ai.agent.id", "unsupported.agent.id", to.TEXT),
        Row(
            "gen_ai.prompt",
            "data.inputs",
            SAID_INPUTS,
            _OR_NUMBERS,
            generations=_ONE_TEXT,
            unless=r"gen_ai\.prompt\.\d",
        ),
        Row("gen_ai.prompt", "data.parameters.tools", TOOLS_OF_REQUEST, generations=_ONE_TEXT),
        Row(
            "gen_ai.completion",
            "data.outputs",
            SAID_OUTPUTS,
            _OR_NUMBERS,
            generations=_ONE_TEXT,
            unless=r"gen_ai\.completion\.\d",
        ),
        Row(
            ("gen_ai.input.messages", "gen_ai.system_instructions"),
            "data.inputs",
            CHAT_WITH_INSTRUCTIONS,
            unless=r"pydantic_ai\.all_messages",
        ),
        Row("gen_ai.output.messages", "data.outputs", CHAT),
        Row("gen_ai.tool.definitions", "data.parameters.tools", TOOLS),
        Row("gen_ai.tool.name", "meta.tool.name", to.TEXT),
        Row("gen_ai.tool.call.id", "meta.tool.id", to.TEXT),
        Row("gen_ai.tool.description", "meta.tool.description", to.TEXT),
        Row("gen_ai.tool.type", "meta.tool.type", to.TEXT),
        Row("gen_ai.tool.call.arguments", "data.inputs", to.INPUTS),
        Row("gen_ai.tool.call.result", "data.outputs", to.RESULT),
    ),
)
