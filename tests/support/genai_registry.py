"""What becomes of each name of OpenTelemetry's GenAI conventions: the decisions of people about the names in
``tests/data/genai_registry.json``.

A test compares the two and maps a span with each attribute; ``docs/instrumentations.md`` has the decisions as a table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

REGISTRY: Final[dict[str, Any]] = orjson.loads((Path(__file__).parents[1] / "data/genai_registry.json").read_bytes())
"""The names, with a value for each attribute."""

VARIABLE: Final = "<key>"
"""The part of a name that is the name of a variable."""

_TOKENS: Final = "metrics.tokens.incremental."
_SCORE: Final = "becomes a score"
_METRIC: Final = "a dimension of metrics, not of spans"
_ALONE: Final = "no other convention has it"
_PROVIDER: Final = "a detail of one provider"
_RESOURCE: Final = "usually an attribute of the resource"
_DESCRIPTION: Final = "describes what the name next to it names"


class Mapped(NamedTuple):
    """An attribute that has a place below ``ag``.

    ``value``: what is there, if it is not the value in the registry. ``beside``: further attributes of its spans.
    ``note``: where this holds, if not always.
    """

    place: str
    value: Any = None
    beside: tuple[tuple[str, Any], ...] = ()
    note: str = ""


class Kept(NamedTuple):
    """An attribute that is only kept as it was sent, and why."""

    why: str


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


_ASKED: Final = _message("user", "Weather in Paris?")
_SAID: Final = _message("assistant", "It is rainy.")

DECISIONS: Final[dict[str, Mapped | Kept]] = {
    "aws.bedrock.guardrail.id": Kept(_PROVIDER),
    "aws.bedrock.knowledge_base.id": Kept(_PROVIDER),
    "gen_ai.agent.description": Kept(_DESCRIPTION),
    "gen_ai.agent.id": Mapped("unsupported.agent.id"),
    "gen_ai.agent.name": Mapped("unsupported.agent.name"),
    "gen_ai.agent.version": Mapped("unsupported.agent.version"),
    "gen_ai.completion": Mapped("data.outputs"),
    "gen_ai.conversation.compacted": Kept(_ALONE),
    "gen_ai.conversation.id": Mapped("session.id"),
    "gen_ai.data_source.id": Kept(_ALONE),
    "gen_ai.embeddings.dimension.count": Mapped("meta.request.dimensions"),
    "gen_ai.evaluation.explanation": Kept(_SCORE),
    "gen_ai.evaluation.name": Kept(_SCORE),
    "gen_ai.evaluation.score.label": Kept(_SCORE),
    "gen_ai.evaluation.score.value": Kept(_SCORE),
    "gen_ai.input.messages": Mapped("data.inputs.messages", [_ASKED]),
    "gen_ai.input.messages.ref": Mapped("data.inputs.messages_ref"),
    "gen_ai.input.messages_ref": Mapped("data.inputs.messages_ref"),
    "gen_ai.main_agent.description": Kept(_RESOURCE),
    "gen_ai.main_agent.id": Kept(_RESOURCE),
    "gen_ai.main_agent.name": Kept(_RESOURCE),
    "gen_ai.memory.query.text": Mapped("data.inputs.query"),
    "gen_ai.memory.record.count": Kept(_ALONE),
    "gen_ai.memory.record.id": Kept(_ALONE),
    "gen_ai.memory.records": Mapped(
        "data.outputs.records",
        [{"content": "User prefers dark mode", "id": "mem_123", "score": 0.95}],
        beside=(("gen_ai.operation.name", "search_memory"),),
        note="of a search; else `ag.data.inputs.records`",
    ),
    "gen_ai.memory.store.id": Kept(_ALONE),
    "gen_ai.openai.request.response_format": Mapped("meta.request.response_format"),
    "gen_ai.openai.request.seed": Mapped("meta.request.seed"),
    "gen_ai.openai.request.service_tier": Mapped("meta.request.service_tier"),
    "gen_ai.openai.response.service_tier": Kept(_PROVIDER),
    "gen_ai.openai.response.system_fingerprint": Kept(_PROVIDER),
    "gen_ai.operation.name": Mapped("type.span"),
    "gen_ai.output.messages": Mapped("data.outputs.messages", [_SAID]),
    "gen_ai.output.messages.ref": Mapped("data.outputs.messages_ref"),
    "gen_ai.output.messages_ref": Mapped("data.outputs.messages_ref"),
    "gen_ai.output.type": Kept(_ALONE),
    "gen_ai.prompt": Mapped("data.inputs.value"),
    "gen_ai.prompt.name": Mapped("data.parameters.prompt_template.name"),
    "gen_ai.prompt.variable.<key>": Mapped("data.parameters.prompt_template.variables.<key>"),
    "gen_ai.prompt.version": Mapped("data.parameters.prompt_template.version"),
    "gen_ai.provider.name": Mapped("meta.system"),
    "gen_ai.request.choice.count": Mapped("meta.request.choice.count"),
    "gen_ai.request.encoding_formats": Mapped("meta.request.encoding_formats"),
    "gen_ai.request.frequency_penalty": Mapped("meta.request.frequency_penalty"),
    "gen_ai.request.max_tokens": Mapped("meta.request.max_tokens"),
    "gen_ai.request.model": Mapped("meta.request.model"),
    "gen_ai.request.presence_penalty": Mapped("meta.request.presence_penalty"),
    "gen_ai.request.previous_response.id": Mapped("meta.request.previous_response.id"),
    "gen_ai.request.reasoning.level": Mapped("meta.request.reasoning.level"),
    "gen_ai.request.seed": Mapped("meta.request.seed"),
    "gen_ai.request.stop_sequences": Mapped("meta.request.stop_sequences"),
    "gen_ai.request.stream": Mapped("meta.request.stream"),
    "gen_ai.request.stream_cursor": Mapped("meta.request.stream_cursor"),
    "gen_ai.request.temperature": Mapped("meta.request.temperature"),
    "gen_ai.request.top_k": Mapped("meta.request.top_k"),
    "gen_ai.request.top_p": Mapped("meta.request.top_p"),
    "gen_ai.response.finish_reasons": Mapped("meta.response.finish_reasons"),
    "gen_ai.response.id": Mapped("meta.response.id"),
    "gen_ai.response.model": Mapped("meta.response.model"),
    "gen_ai.response.status": Mapped("meta.response.status"),
    "gen_ai.response.time_to_first_chunk": Mapped("meta.response.time_to_first_chunk"),
    "gen_ai.retrieval.documents": Mapped("data.outputs.documents", [{"id": "doc_123", "score": 0.95}]),
    "gen_ai.retrieval.query.text": Mapped("data.inputs.query"),
    "gen_ai.retrieval.top_k": Mapped("meta.request.top_k"),
    "gen_ai.skill.description": Kept(_DESCRIPTION),
    "gen_ai.skill.name": Kept(_ALONE),
    "gen_ai.skill.resource.name": Kept(_ALONE),
    "gen_ai.skill.source.uri": Kept(_ALONE),
    "gen_ai.system": Mapped("meta.system"),
    "gen_ai.system_instructions": Mapped("data.inputs.messages", [_message("system", "You are a translator.")]),
    "gen_ai.system_instructions.ref": Mapped("data.inputs.system_instructions_ref"),
    "gen_ai.system_instructions_ref": Mapped("data.inputs.system_instructions_ref"),
    "gen_ai.token.modality": Kept(_METRIC),
    "gen_ai.token.type": Kept(_METRIC),
    "gen_ai.tool.call.arguments": Mapped("data.inputs", {"location": "Paris"}),
    "gen_ai.tool.call.id": Mapped("meta.tool.id"),
    "gen_ai.tool.call.result": Mapped("data.outputs", {"conditions": "sunny"}),
    "gen_ai.tool.definitions": Mapped("data.parameters.tools", [{"type": "function", "name": "get_weather"}]),
    "gen_ai.tool.definitions.ref": Mapped("data.parameters.tools_ref"),
    "gen_ai.tool.definitions_ref": Mapped("data.parameters.tools_ref"),
    "gen_ai.tool.description": Mapped("meta.tool.description"),
    "gen_ai.tool.name": Mapped("meta.tool.name"),
    "gen_ai.tool.type": Mapped("meta.tool.type"),
    "gen_ai.usage.audio.cache_read.input_tokens": Mapped(_TOKENS + "cached_audio"),
    "gen_ai.usage.audio.input_tokens": Mapped(_TOKENS + "prompt_audio"),
    "gen_ai.usage.audio.output_tokens": Mapped(_TOKENS + "completion_audio"),
    "gen_ai.usage.cache_creation.input_tokens": Mapped(_TOKENS + "cache_write"),
    "gen_ai.usage.cache_read.input_tokens": Mapped(_TOKENS + "cached"),
    "gen_ai.usage.cache_write.input_tokens": Mapped(_TOKENS + "cache_write"),
    "gen_ai.usage.completion_tokens": Mapped(_TOKENS + "completion"),
    "gen_ai.usage.image.cache_read.input_tokens": Mapped(_TOKENS + "cached_image"),
    "gen_ai.usage.image.input_tokens": Mapped(_TOKENS + "prompt_image"),
    "gen_ai.usage.image.output_tokens": Mapped(_TOKENS + "completion_image"),
    "gen_ai.usage.input_tokens": Mapped(_TOKENS + "prompt"),
    "gen_ai.usage.output_tokens": Mapped(_TOKENS + "completion"),
    "gen_ai.usage.prompt_tokens": Mapped(_TOKENS + "prompt"),
    "gen_ai.usage.reasoning.output_tokens": Mapped(_TOKENS + "reasoning"),
    "gen_ai.usage.text.cache_read.input_tokens": Mapped(_TOKENS + "cached_text"),
    "gen_ai.usage.text.input_tokens": Mapped(_TOKENS + "prompt_text"),
    "gen_ai.usage.text.output_tokens": Mapped(_TOKENS + "completion_text"),
    "gen_ai.workflow.name": Kept(_ALONE),
    "mcp.method.name": Mapped("type.span", "task", note="`task`, unless another attribute names a kind, or a model"),
    "mcp.protocol.version": Kept(_ALONE),
    "mcp.resource.uri": Kept(_ALONE),
    "mcp.session.id": Kept("a session of the connection, not of a user"),
    "openai.api.type": Kept(_PROVIDER),
    "openai.request.service_tier": Mapped("meta.request.service_tier"),
    "openai.response.service_tier": Kept(_PROVIDER),
    "openai.response.system_fingerprint": Kept(_PROVIDER),
}

_MESSAGES: Final = "messages in `ag.data`, if no attribute has them"

EVENTS: Final = {
    "gen_ai.assistant.message": _MESSAGES,
    "gen_ai.choice": _MESSAGES,
    "gen_ai.client.inference.operation.details": "`ag`, as if its attributes were those of the span",
    "gen_ai.client.operation.exception": "`ag.exception`",
    "gen_ai.content.completion": _MESSAGES,
    "gen_ai.content.prompt": _MESSAGES,
    "gen_ai.evaluation.result": f"kept; {_SCORE}",
    "gen_ai.system.message": _MESSAGES,
    "gen_ai.tool.message": _MESSAGES,
    "gen_ai.user.message": _MESSAGES,
}

OPERATIONS: Final = {
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
    "retrieval": "query",
    "search_memory": "query",
    "text_completion": "completion",
    "update_memory": "task",
    "upsert_memory": "task",
}
"""Values of ``gen_ai.operation.name``, and the type of span that each is."""


def attributes_of_registry() -> dict[str, Any]:
    """Return every attribute of the registry, also deprecated ones and references, with a value."""
    groups: list[dict[str, Any]] = [REGISTRY[group] for group in ("attributes", "references", "deprecated")]
    return {name: value for group in groups for name, value in group.items()}


def decided(name: str) -> str:
    """Return what becomes of an attribute, in words."""
    decision = DECISIONS[name]
    if isinstance(decision, Kept):
        return f"kept; {decision.why}"
    return f"`ag.{decision.place}`" + (f": {decision.note}" if decision.note else "")


def rows() -> list[tuple[str, str]]:
    """Return the names of attributes and events with what becomes of them, as in the documentation."""
    old = REGISTRY["deprecated"].keys() | REGISTRY["deprecated_events"]
    names = {
        **{name: decided(name) for name in DECISIONS},
        **{name: f"{said} (an event)" for name, said in EVENTS.items()},
    }
    return [(f"`{name}`{' (deprecated)' if name in old else ''}", names[name]) for name in sorted(names)]
