"""OpenInference (Arize): flattened messages, token counts by kind, the raw request and answer as JSON."""

from __future__ import annotations

from typing import Final

from ingest.semconv.chats import CHAT, INPUTS_OF_MIME_TYPE, OUTPUTS_OF_MIME_TYPE
from ingest.semconv.converters import (
    AMOUNT,
    AS_SENT,
    COUNT,
    DOCUMENTS,
    EMBEDDED_TEXTS,
    FINISH_REASONS_READ,
    METADATA,
    OBJECT,
    PROVIDER,
    SETTINGS,
    TAGS,
    TEXT,
    word,
)
from ingest.semconv.rows import Convention, Row
from ingest.semconv.tools import TOOLS
from ingest.semconv.vocabulary import OPENINFERENCE_KINDS

_TOKENS = "metrics.tokens.incremental."
_COSTS = "metrics.costs.incremental."
_SAYS_SOMETHING = r"\d+\.message\.(content|tool_calls)"
_SAME_SPAN = r"openinference\.span\.kind"
_MODEL_NOTE = "unless another attribute names the requested model"

OPENINFERENCE: Final = Convention(
    "openinference",
    "OpenInference",
    (
        Row("openinference.span.kind", "type.span", word(OPENINFERENCE_KINDS)),
        Row(
            ("input.value", "input.mime_type"),
            "data.inputs",
            INPUTS_OF_MIME_TYPE,
            note="if there are no messages",
            unless=rf"llm\.input_messages\.{_SAYS_SOMETHING}|embedding\.embeddings\.",
        ),
        Row(
            ("output.value", "output.mime_type"),
            "data.outputs",
            OUTPUTS_OF_MIME_TYPE,
            note="if there are no messages; vectors of embeddings stay where they were sent",
            unless=rf"llm\.output_messages\.{_SAYS_SOMETHING}|embedding\.embeddings\.",
        ),
        Row("llm.input_messages.*", "data.inputs", CHAT),
        Row("llm.output_messages.*", "data.outputs", CHAT),
        Row("embedding.embeddings.*", "data.inputs", EMBEDDED_TEXTS),
        Row("retrieval.documents.*", "data.outputs", DOCUMENTS, unless=r"output\.value"),
        Row("llm.tools.*", "data.parameters.tools", TOOLS),
        Row("llm.prompt_template.template", "data.parameters.prompt_template.template", AS_SENT),
        Row("llm.prompt_template.version", "data.parameters.prompt_template.version", AS_SENT),
        Row("llm.prompt_template.variables", "data.parameters.prompt_template.variables", OBJECT),
        Row("llm.system", "meta.system", PROVIDER),
        Row("llm.provider", "meta.system", PROVIDER),
        Row("llm.model_name", "meta.request.model", TEXT, note=_MODEL_NOTE),
        Row("embedding.model_name", "meta.request.model", TEXT, note=_MODEL_NOTE),
        Row("reranker.model_name", "meta.request.model", TEXT),
        Row("llm.invocation_parameters", "meta.request.*", SETTINGS),
        Row("embedding.invocation_parameters", "meta.request.*", SETTINGS),
        Row("reranker.top_k", "meta.request.top_k", COUNT),
        Row("llm.request.model_name", "meta.request.model", TEXT),
        Row("llm.model_name", "meta.response.model", TEXT),
        Row("embedding.model_name", "meta.response.model", TEXT),
        Row("llm.response.model_name", "meta.response.model", TEXT),
        Row("llm.finish_reason", "meta.response.finish_reasons", FINISH_REASONS_READ),
        Row("llm.token_count.prompt", _TOKENS + "prompt", COUNT),
        Row("llm.token_count.completion", _TOKENS + "completion", COUNT),
        Row("llm.token_count.total", _TOKENS + "total", COUNT),
        Row("llm.token_count.prompt_details.cache_read", _TOKENS + "cached", COUNT),
        Row("llm.token_count.prompt_details.cache_write", _TOKENS + "cache_write", COUNT),
        Row("llm.token_count.completion_details.reasoning", _TOKENS + "reasoning", COUNT),
        Row("llm.cost.prompt", _COSTS + "prompt", AMOUNT),
        Row("llm.cost.completion", _COSTS + "completion", AMOUNT),
        Row("llm.cost.total", _COSTS + "total", AMOUNT),
        Row("agent.name", "unsupported.agent.name", TEXT, requires=_SAME_SPAN),
        Row("agent.name", "unsupported.agent.id", TEXT, requires=_SAME_SPAN),
        Row("tool.name", "meta.tool.name", TEXT),
        Row("tool.id", "meta.tool.id", TEXT),
        Row("tool.description", "meta.tool.description", TEXT),
        Row("tag.tags", "tags.*", TAGS),
        Row("metadata", "meta.*", METADATA, note="except names that `ag.meta` uses itself", requires=_SAME_SPAN),
    ),
)
