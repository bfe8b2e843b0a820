"""One word per concept: providers, finish reasons, span types, whatever word was sent.

Providers and reasons use the words of OpenTelemetry's GenAI conventions; span types use those of the reference (§2). A
word that is not listed stays unchanged, except that providers become lower case.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    "content-filter": "content_filter",
    "end_turn": "stop",
    "function_call": "tool_call",
    "max_tokens": "length",
    "refusal": "content_filter",
    "safety": "content_filter",
    "stop_sequence": "stop",
    "tool-calls": "tool_call",
    "tool_calls": "tool_call",
    "tool_use": "tool_call",
}

OPENINFERENCE_KINDS: Final = {
    "AGENT": "agent",
    "CHAIN": "chain",
    "EMBEDDING": "embedding",
    "EVALUATOR": "task",
    "GUARDRAIL": "task",
    "LLM": "chat",
    "PROMPT": "task",
    "RERANKER": "rerank",
    "RETRIEVER": "query",
    "TOOL": "tool",
}
GENAI_OPERATIONS: Final = {
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
TRACELOOP_KINDS: Final = {"agent": "agent", "task": "task", "tool": "tool", "workflow": "workflow"}
LLM_REQUEST_TYPES: Final = {"chat": "chat", "completion": "completion", "embedding": "embedding", "rerank": "rerank"}
VERCEL_OPERATIONS: Final = {
    "ai.embed": "task",
    "ai.embed.doEmbed": "embedding",
    "ai.embedMany": "task",
    "ai.embedMany.doEmbed": "embedding",
    "ai.generateObject": "agent",
    "ai.generateObject.doGenerate": "chat",
    "ai.generateText": "agent",
    "ai.generateText.doGenerate": "chat",
    "ai.streamObject": "agent",
    "ai.streamObject.doStream": "chat",
    "ai.streamText": "agent",
    "ai.streamText.doStream": "chat",
    "ai.toolCall": "tool",
}


def provider_named(name: str) -> str:
    """Return the normalized name of a provider, without the interface: ``openai`` for ``openai.responses``."""
    lower = name.strip().lower()
    if lower.endswith(_INTERFACES):
        lower = lower.rpartition(".")[0]
    return PROVIDERS.get(lower, lower)


def finish_reason_named(reason: str) -> str:
    """Return the one name of a finish reason."""
    return FINISH_REASONS.get(reason, FINISH_REASONS.get(reason.lower(), reason))


def in_words(words: Mapping[str, str]) -> str:
    """Return a mapping of words as the docs show it."""
    return ", ".join(f"`{sent}` → `{kind}`" for sent, kind in words.items())
