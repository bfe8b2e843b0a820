"""One word per concept, whatever word was sent: providers, finish reasons and roles, in the words of OpenTelemetry's
GenAI conventions.

A word that is not listed stays unchanged, except that providers become lower case. The kinds of spans of a convention
are in its file, with the type of span that each is.
"""

from __future__ import annotations

from typing import Final

PROVIDERS: Final = {
    "amazon-bedrock": "aws.bedrock",
    "aws": "aws.bedrock",
    "az.ai.inference": "azure.ai.inference",
    "az.ai.openai": "azure.ai.openai",
    "azure": "azure.ai.openai",
    "azure-openai": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "google.generative-ai": "gcp.gemini",
    "google.vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "mistralai": "mistral_ai",
    "vertex_ai": "gcp.vertex_ai",
    "vertexai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
_INTERFACES: Final = (
    ".chat",
    ".responses",
    ".completion",
    ".embedding",
    ".messages",
    ".image",
    ".transcription",
    ".speech",
)

FINISH_REASONS: Final = {
    "blocklist": "content_filter",
    "complete": "stop",
    "content-filter": "content_filter",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "end_turn": "stop",
    "error": "error",
    "function_call": "tool_call",
    "guardrail_intervened": "content_filter",
    "length": "length",
    "max_tokens": "length",
    "prohibited_content": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
    "spii": "content_filter",
    "stop": "stop",
    "stop_sequence": "stop",
    "tool-calls": "tool_call",
    "tool_call": "tool_call",
    "tool_calls": "tool_call",
    "tool_use": "tool_call",
}
_ENUMERATION: Final = "finishreason."
"""Python shows a member of an enumeration with its name: ``FinishReason.STOP``."""

ROLES: Final = {
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "HumanMessage": "user",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "ai": "assistant",
    "assistant": "assistant",
    "chatbot": "assistant",
    "human": "user",
    "model": "assistant",
    "system": "system",
    "tool": "tool",
    "user": "user",
}


def provider_named(name: str) -> str:
    """Return the normalized name of a provider, without the interface: ``openai`` for ``openai.responses``."""
    lower = name.strip().lower()
    if lower.endswith(_INTERFACES):
        lower = lower.rpartition(".")[0]
    return PROVIDERS.get(lower, lower)


def finish_reason_named(reason: str) -> str:
    """Return the one name of a finish reason, in whatever case it was sent."""
    return FINISH_REASONS.get(reason) or FINISH_REASONS.get(reason.lower().removeprefix(_ENUMERATION), reason)


def role_named(role: str) -> str:
    """Return the one name of a role, in whatever case it was sent."""
    return ROLES.get(role) or ROLES.get(role.lower(), role)
