"""OpenInference (Arize): flattened messages, token counts by kind, the raw request and answer as JSON."""

from __future__ import annotations

from typing import Final

from ingest.semconv import converters as to
from ingest.semconv.chats import CHAT, INPUTS_OF_MIME_TYPE, OUTPUTS_OF_MIME_TYPE
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
        Row("openinference.span.kind", "type.span", to.word(OPENINFERENCE_KINDS)),
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
        Row("embedding.embeddings.*", "data.inputs", to.EMBEDDED_TEXTS),
        Row("retrieval.documents.*", "data.outputs", to.DOCUMENTS, unless=r"output\.value"),
        Row("llm.tools.*", "data.parameters.tools", TOOLS),
        Row("llm.prompt_template.template", "data.parameters.prompt_template.template", to.AS_SENT),
        Row("llm.prompt_template.version", "data.parameters.prompt_template.version", to.AS_SENT),
        Row("llm.prompt_template.variables", "data.parameters.prompt_template.variables", to.OBJECT),
        Row("llm.system", "meta.system", to.PROVIDER),
        Row("llm.provider", "meta.system", to.PROVIDER),
        Row("llm.model_name", "meta.request.model", to.TEXT, note=_MODEL_NOTE),
        Row("embedding.model_name", "meta.request.model", to.TEXT, note=_MODEL_NOTE),
        Row("reranker.model_name", "meta.request.model", to.TEXT),
        Row("llm.invocation_parameters", "meta.request.*", to.SETTINGS),
        Row("embedding.invocation_parameters", "meta.request.*", to.SETTINGS),
        Row("reranker.top_k", "meta.request.top_k", to.COUNT),
        Row("llm.request.model_name", "meta.request.model", to.TEXT),
        Row("llm.model_name", "meta.response.model", to.TEXT),
        Row("embedding.model_name", "meta.response.model", to.TEXT),
        Row("llm.response.model_name", "meta.response.model", to.TEXT),
        Row("llm.finish_reason", "meta.response.finish_reasons", to.FINISH_REASONS_READ),
        Row("llm.token_count.prompt", _TOKENS + "prompt", to.COUNT),
        Row("llm.token_count.completion", _TOKENS + "completion", to.COUNT),
        Row("llm.token_count.total", _TOKENS + "total", to.COUNT),
        Row("llm.token_count.prompt_details.cache_read", _TOKENS + "cached", to.COUNT),
        Row("llm.token_count.prompt_details.cache_write", _TOKENS + "cache_write", to.COUNT),
        Row("llm.token_count.completion_details.reasoning", _TOKENS + "reasoning", to.COUNT),
        Row("llm.cost.prompt", _COSTS + "prompt", to.AMOUNT),
        Row("llm.cost.completion", _COSTS + "completion", to.AMOUNT),
        Row("llm.cost.total", _COSTS + "total", to.AMOUNT),
        Row("agent.name", "unsupported.agent.name", to.TEXT, requires=_SAME_SPAN),
        Row("agent.name", "unsupported.agent.id", to.TEXT, requires=_SAME_SPAN),
        Row("tool.name", "meta.tool.name", to.TEXT),
        Row("tool.id", "meta.tool.id", to.TEXT),
        Row("tool.description", "meta.tool.description", to.TEXT),
        Row("tag.tags", "tags.*", to.TAGS),
        Row("metadata", "meta.*", to.METADATA, note="except names that `ag.meta` uses itself", requires=_SAME_SPAN),
    ),
)
