"""OpenTelemetry's GenAI conventions, from 1.27 on: what most instrumentations write today, including OpenLLMetry and AI
SDK 7. ``tests/data/genai_registry.json`` has all names of the newest ones.
"""

from __future__ import annotations

from typing import Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.chats import SAID_INPUTS, SAID_OUTPUTS, TOOLS_OF_REQUEST
from ingest.semconv.messages import CHAT, CHAT_WITH_INSTRUCTIONS
from ingest.semconv.rows import Convention, Converter, Row
from ingest.semconv.tool_messages import ARGUMENTS_IN_MESSAGES, RESULT_IN_MESSAGES
from ingest.semconv.tools import TOOLS

_TOKENS = "metrics.tokens.incremental."
_SUMS = "metrics.tokens.cumulative."
_OLD = "until 1.36"
_ONE_TEXT = "until 1.28, and LangSmith"
_OR_NUMBERS = "unless there are numbered members"
_OF_PROMPT = "a part of `prompt`"
_OF_COMPLETION = "a part of `completion`"
_OF_CACHED = "a part of `cached`"
_AS_DOCUMENTED = "as its documentation spells it"
_OF_TOOL = ("gen_ai.operation.name", "gen_ai.tool.name")
_OF_MODEL = r"gen_ai\.request\.model"
_PROMPT_TEMPLATE = "data.parameters.prompt_template."

_OPERATIONS: Final = {
    "agent_step": "task",
    "chat": "chat",
    "create_agent": "agent",
    "create_memory": "task",
    "create_memory_store": "task",
    "delete_memory": "task",
    "delete_memory_store": "task",
    "embeddings": "embedding",
    "execute_tool": "tool",
    "fetch_response": "task",
    "generate_content": "completion",
    "invoke_agent": "agent",
    "invoke_workflow": "workflow",
    "plan": "task",
    "rerank": "rerank",
    "retrieval": "query",
    "search_memory": "query",
    "text_completion": "completion",
    "update_memory": "task",
    "upsert_memory": "task",
}

_RESPONSE_ID: Final = "resp_"
"""The beginning of ids of OpenAI's responses. Agent Framework sends the previous one as the id of the conversation."""


def _conversation(sent: Value) -> str | None:
    text = to.as_text(sent)
    return None if text is None or text.startswith(_RESPONSE_ID) else text


def _variables(sent: Value) -> Value:
    return to.within(sent) if isinstance(sent, dict | list) else None


def _records(*, are_results: bool) -> Converter:
    """Return a converter to the records of a memory, which are the results of a search and the inputs of all else."""

    def read(sent: Value, operation: Value) -> Value:
        return to.value_of(sent) if (operation == "search_memory") == are_results else None

    said = "the records, if the operation is `search_memory`" if are_results else "the records of any other operation"
    return Converter(said, read)


_CONVERSATION = Converter("a text, unless it is the id of a response of OpenAI", _conversation)
_DOCUMENTS = Converter("the documents", to.value_of)
_VARIABLES = Converter("the variables by their names", _variables)

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
        Row("gen_ai.retrieval.top_k", "meta.request.top_k", to.COUNT),
        Row("openai.request.service_tier", "meta.request.service_tier", to.TEXT),
        Row("gen_ai.embeddings.dimension.count", "meta.request.dimensions", to.COUNT),
        Row("gen_ai.response.model", "meta.response.model", to.TEXT),
        Row("gen_ai.response.id", "meta.response.id", to.TEXT),
        Row("gen_ai.response.status", "meta.response.status", to.TEXT),
        Row("gen_ai.response.time_to_first_chunk", "meta.response.time_to_first_chunk", to.NUMBER, note="seconds"),
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
        Row("gen_ai.usage.text.input_tokens", _TOKENS + "prompt_text", to.COUNT, note=_OF_PROMPT),
        Row("gen_ai.usage.image.input_tokens", _TOKENS + "prompt_image", to.COUNT, note=_OF_PROMPT),
        Row("gen_ai.usage.audio.input_tokens", _TOKENS + "prompt_audio", to.COUNT, note=_OF_PROMPT),
        Row("gen_ai.usage.text.output_tokens", _TOKENS + "completion_text", to.COUNT, note=_OF_COMPLETION),
        Row("gen_ai.usage.image.output_tokens", _TOKENS + "completion_image", to.COUNT, note=_OF_COMPLETION),
        Row("gen_ai.usage.audio.output_tokens", _TOKENS + "completion_audio", to.COUNT, note=_OF_COMPLETION),
        Row("gen_ai.usage.text.cache_read.input_tokens", _TOKENS + "cached_text", to.COUNT, note=_OF_CACHED),
        Row("gen_ai.usage.image.cache_read.input_tokens", _TOKENS + "cached_image", to.COUNT, note=_OF_CACHED),
        Row("gen_ai.usage.audio.cache_read.input_tokens", _TOKENS + "cached_audio", to.COUNT, note=_OF_CACHED),
        Row("gen_ai.aggregated_usage.input_tokens", _SUMS + "prompt", to.COUNT, note="a sum, as the name says"),
        Row("gen_ai.aggregated_usage.output_tokens", _SUMS + "completion", to.COUNT, note="a sum, as the name says"),
        Row("gen_ai.usage.cost", "metrics.costs.incremental.total", to.AMOUNT),
        Row("gen_ai.conversation.id", "session.id", _CONVERSATION, unless=r"logfire\."),
        Row("gen_ai.agent.name", "unsupported.agent.name", to.TEXT),
        Row("gen_ai.agent.name", "unsupported.agent.id", to.TEXT, note="if there is no id"),
        Row("gen_ai.agent.id", "unsupported.agent.id", to.TEXT),
        Row("gen_ai.agent.version", "unsupported.agent.version", to.TEXT),
        Row("gen_ai.prompt.name", _PROMPT_TEMPLATE + "name", to.TEXT),
        Row("gen_ai.prompt.version", _PROMPT_TEMPLATE + "version", to.TEXT),
        Row("gen_ai.prompt.variable.*", _PROMPT_TEMPLATE + "variables", _VARIABLES),
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
        Row(
            ("gen_ai.input.messages", *_OF_TOOL),
            "data.inputs",
            ARGUMENTS_IN_MESSAGES,
            requires=r"gen_ai\.input\.messages",
            unless=_OF_MODEL,
        ),
        Row(
            ("gen_ai.output.messages", *_OF_TOOL),
            "data.outputs",
            RESULT_IN_MESSAGES,
            requires=r"gen_ai\.output\.messages",
            unless=_OF_MODEL,
        ),
        Row("gen_ai.tool.definitions", "data.parameters.tools", TOOLS),
        Row("gen_ai.input.messages.ref", "data.inputs.messages_ref", to.TEXT, note=_AS_DOCUMENTED),
        Row("gen_ai.input.messages_ref", "data.inputs.messages_ref", to.TEXT),
        Row("gen_ai.system_instructions.ref", "data.inputs.system_instructions_ref", to.TEXT, note=_AS_DOCUMENTED),
        Row("gen_ai.system_instructions_ref", "data.inputs.system_instructions_ref", to.TEXT),
        Row("gen_ai.output.messages.ref", "data.outputs.messages_ref", to.TEXT, note=_AS_DOCUMENTED),
        Row("gen_ai.output.messages_ref", "data.outputs.messages_ref", to.TEXT),
        Row("gen_ai.tool.definitions.ref", "data.parameters.tools_ref", to.TEXT, note=_AS_DOCUMENTED),
        Row("gen_ai.tool.definitions_ref", "data.parameters.tools_ref", to.TEXT),
        Row("gen_ai.retrieval.query.text", "data.inputs.query", to.TEXT),
        Row("gen_ai.retrieval.documents", "data.outputs.documents", _DOCUMENTS),
        Row("gen_ai.memory.query.text", "data.inputs.query", to.TEXT),
        Row(
            ("gen_ai.memory.records", "gen_ai.operation.name"),
            "data.inputs.records",
            _records(are_results=False),
            requires=r"gen_ai\.memory\.records",
        ),
        Row(
            ("gen_ai.memory.records", "gen_ai.operation.name"),
            "data.outputs.records",
            _records(are_results=True),
            requires=r"gen_ai\.memory\.records",
        ),
        Row("gen_ai.tool.name", "meta.tool.name", to.TEXT),
        Row("gen_ai.tool.call.id", "meta.tool.id", to.TEXT),
        Row("gen_ai.tool.description", "meta.tool.description", to.TEXT),
        Row("gen_ai.tool.type", "meta.tool.type", to.TEXT),
        Row("gen_ai.tool.call.arguments", "data.inputs", to.INPUTS),
        Row("gen_ai.tool.call.result", "data.outputs", to.RESULT),
    ),
)
