"""OpenInference (Arize): flattened messages, token counts by kind, the raw request and answer as JSON."""

from __future__ import annotations

from typing import Any, Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.messages import CHAT, INPUTS_OF_MIME_TYPE, OUTPUTS_OF_MIME_TYPE
from ingest.semconv.rows import Convention, Converter, Reason, Row
from ingest.semconv.tools import TOOLS

_TOKENS = "metrics.tokens.incremental."
_COSTS = "metrics.costs.incremental."
_SAYS_SOMETHING = r"\d+\.message\.(content|tool_calls)"
_OTHER_INPUTS = r"input\.value|llm\.input_messages\."
_SAME_SPAN = r"openinference\.span\.kind"
_MODEL_NOTE = "unless another attribute names the requested model"

_KINDS: Final = {
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


def _embedded(sent: Value) -> dict[str, Any] | None:
    inner = [element.get("embedding") for element in to.array_of(sent, Reason.NOT_TEXT) if isinstance(element, dict)]
    texts = [element["text"] for element in inner if isinstance(element, dict) and isinstance(element.get("text"), str)]
    return {"value": texts} if texts else None


def _documents(sent: Value) -> list[dict[str, Any]] | None:
    inner = [element.get("document") for element in to.array_of(sent, Reason.NOT_TEXT) if isinstance(element, dict)]
    documents = [
        {
            name: to.parsed_if_json(member, levels_max=to.VALUE_LEVELS_MAX) if name == "metadata" else member
            for name, member in element.items()
        }
        for element in inner
        if isinstance(element, dict)
    ]
    return documents or None


_EMBEDDED_TEXTS = Converter("the texts that were embedded, as `value`", _embedded)
_DOCUMENTS = Converter("the documents", _documents)

OPENINFERENCE: Final = Convention(
    "openinference",
    "OpenInference",
    (
        Row("openinference.span.kind", "type.span", to.word(_KINDS)),
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
        Row("embedding.embeddings.*", "data.inputs", _EMBEDDED_TEXTS),
        Row("retrieval.documents.*", "data.outputs.documents", _DOCUMENTS, unless=r"output\.value"),
        Row("reranker.query", "data.inputs.query", to.TEXT, unless=_OTHER_INPUTS),
        Row("reranker.input_documents.*", "data.inputs.documents", _DOCUMENTS, unless=_OTHER_INPUTS),
        Row("reranker.output_documents.*", "data.outputs.documents", _DOCUMENTS, unless=r"output\.value"),
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
