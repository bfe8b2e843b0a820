"""MLflow's own attributes: what its exporter writes unless it is set to write the GenAI conventions. Values are JSON,
texts too.
"""

from __future__ import annotations

from typing import Any, Final

from common.span import Value
from ingest.semconv import converters as to
from ingest.semconv.chats import SAID_INPUTS_IN_JSON, SAID_OUTPUTS_IN_JSON
from ingest.semconv.rows import Convention, Converter, Row
from ingest.semconv.tools import TOOLS
from ingest.semconv.usage import COSTS_GIVEN, TOKENS_USED

_MLFLOW = r"mlflow\."
_NEXT_TO_MLFLOW = "only next to `mlflow.…`"
_EMBEDDING: Final = "EMBEDDING"
_COST_ENDING: Final = "_cost"

_TYPES: Final = {
    "AGENT": "agent",
    "CHAIN": "chain",
    "CHAT_MODEL": "chat",
    _EMBEDDING: "embedding",
    "EVALUATOR": "task",
    "GUARDRAIL": "task",
    "LLM": "chat",
    "MEMORY": "task",
    "PARSER": "task",
    "RERANKER": "rerank",
    "RETRIEVER": "query",
    "TASK": "task",
    "TOOL": "tool",
    "WORKFLOW": "workflow",
}


def _in_json(converter: Converter) -> Converter:
    """Return a converter of values that came as JSON."""
    return Converter(converter.says, lambda sent: converter.read(to.unquoted(sent)))


def _given(converter: Converter) -> Converter:
    """Return a converter of settings, which are `null` if a call does not set them."""
    return Converter(converter.says, lambda sent: None if sent == "null" else converter.read(sent))


def _outputs(sent: Value, kind: Value) -> Any:
    """Return the outputs. Vectors of embeddings stay where they were sent."""
    return None if sent is None or to.unquoted(kind) == _EMBEDDING else SAID_OUTPUTS_IN_JSON.read(sent)


def _costs(sent: Value) -> dict[str, Any]:
    """Return the costs of an object whose members are named ``input_cost``."""
    costs = {name.removesuffix(_COST_ENDING): cost for name, cost in to.as_object(sent).items()}
    found: dict[str, Any] = COSTS_GIVEN.read(costs)
    return found


_OUTPUTS = Converter(
    "messages, if the JSON is a chat; else the JSON; vectors of embeddings stay where they were sent", _outputs
)
_COSTS = Converter(COSTS_GIVEN.says, _costs)
_TEXT = _in_json(to.TEXT)
_NAME: Final = ("mlflow.spanFunctionName", "mlflow.spanType")


def _tool_name(name: Value, kind: Value) -> str | None:
    return to.as_text(to.unquoted(name)) if name is not None and to.unquoted(kind) == "TOOL" else None


MLFLOW: Final = Convention(
    "mlflow",
    "MLflow",
    (
        Row("mlflow.spanType", "type.span", _in_json(to.word(_TYPES))),
        Row("mlflow.spanInputs", "data.inputs", SAID_INPUTS_IN_JSON),
        Row(("mlflow.spanOutputs", "mlflow.spanType"), "data.outputs", _OUTPUTS),
        Row("mlflow.chat.tools", "data.parameters.tools", TOOLS),
        Row("mlflow.llm.provider", "meta.system", _in_json(to.PROVIDER)),
        Row("mlflow.llm.model", "meta.request.model", _TEXT, note="unless `model` names the requested one"),
        Row("mlflow.llm.model", "meta.response.model", _TEXT),
        Row("model", "meta.request.model", _TEXT, note=_NEXT_TO_MLFLOW, requires=_MLFLOW),
        Row("temperature", "meta.request.temperature", _given(to.NUMBER), note=_NEXT_TO_MLFLOW, requires=_MLFLOW),
        Row("max_tokens", "meta.request.max_tokens", _given(to.COUNT), note=_NEXT_TO_MLFLOW, requires=_MLFLOW),
        Row("top_p", "meta.request.top_p", _given(to.NUMBER), note=_NEXT_TO_MLFLOW, requires=_MLFLOW),
        Row("mlflow.chat.tokenUsage", "metrics.tokens.incremental.*", TOKENS_USED),
        Row("mlflow.llm.cost", "metrics.costs.incremental.*", _COSTS),
        Row(_NAME, "meta.tool.name", Converter("the name of the function, if the kind is `TOOL`", _tool_name)),
        Row("session.id", "session.id", _TEXT, note=_NEXT_TO_MLFLOW, requires=_MLFLOW),
        Row("user.id", "user.id", _TEXT, note=_NEXT_TO_MLFLOW, requires=_MLFLOW),
    ),
)
