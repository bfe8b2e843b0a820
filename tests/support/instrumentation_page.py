"""``docs/instrumentations.md``: the parts of it that are made, from the tables of mappings and from the samples, and its blocks.

A part stands between ``<!-- made: name -->`` and ``<!-- end -->``; ``pytest --rewrite-golden`` writes them anew. The rest of
the page is written by people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from common.span import NormalizedSpan, Span, StatusCode
from ingest import ag
from ingest.normalize import EXCEPTION_EVENTS
from ingest.semconv.conventions import CONVENTIONS
from ingest.semconv.rows import Convention, Row
from tests.support import genai_registry
from tests.support.sample_records import SAMPLES, normals_of, spans_of

PAGE: Final = Path(__file__).parents[2] / "docs/instrumentations.md"
MODEL_CALLS: Final = frozenset({"chat", "completion", "embedding", "llm", "rerank"})

_Pairs: TypeAlias = Sequence[tuple[Span, NormalizedSpan]]
_PART: Final = re.compile(r"(<!-- made: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_parts_made(page: str) -> str:
    """The page with each part as it has to be. A part that nothing makes is a ``KeyError``."""
    return _PART.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}\n{found[3]}", page)


def parts_of(page: str) -> list[str]:
    """The names of the parts that the page has, in their order."""
    return [found[2] for found in _PART.finditer(page)]


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code in a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


# What becomes of attributes.


def mapping_table(convention: Convention) -> str:
    """The rows of a convention as a table for people."""
    rows = [
        (" + ".join(f"`{source}`" for source in row.sources), f"`ag.{row.target}`", row.reading.says, _note(row))
        for row in convention.rows
    ]
    return _table(("attribute", "becomes", "read as", "note"), rows)


def registry_table() -> str:
    """The names of OpenTelemetry's GenAI conventions, and what becomes of each."""
    return _table(("name", "becomes"), genai_registry.rows())


def operations_table() -> str:
    """The operations of these conventions, and the type of span that each is."""
    return _table(
        ("operation", "type of span"),
        [(f"`{operation}`", f"`{span_type}`") for operation, span_type in genai_registry.OPERATIONS.items()],
    )


def ag_attributes_table() -> str:
    """The older names of Agenta's SDK, and what they are now."""
    renamed = [(f"`{old}*`", f"`{new}*`") for old, new in ag._RENAMED_PREFIXES]
    renamed += [(f"`{old}`", f"`{new}`") for old, new in ag._RENAMED_KEYS.items()]
    return _table(("attribute", "becomes"), renamed)


def _note(row: Row) -> str:
    """Return the note of a row; without one, which other keys the row requires or excludes."""
    versions = f"version {row.generations}" if row.generations.isdecimal() else row.generations
    has_note = bool(row.note) or row.requires.replace("\\", "") in row.sources
    requires = "" if has_note or not row.requires else f"only next to {_keys_like(row.requires)}"
    unless = "" if row.note or not row.unless else f"not next to {_keys_like(row.unless)}"
    return "; ".join(part for part in (versions, row.note, requires, unless) if part)


def _keys_like(pattern: str) -> str:
    """The beginnings of keys that a plain pattern names. One that is not plain needs a note, and is a ``ValueError``."""
    beginnings = pattern.replace(r"\.", ".").split("|")
    if not all(re.fullmatch(r"[\w.]+", beginning) for beginning in beginnings):
        raise ValueError(f"{pattern} cannot be told to people: its row needs a note")
    return ", ".join(f"`{beginning}{'…' if beginning.endswith('.') else ''}`" for beginning in beginnings)


# What is there.


class Instrumentation(NamedTuple):
    """What wrote some of the samples, and the library whose version is told."""

    title: str
    library: str
    samples: tuple[str, ...]


_OPENAI_V2 = "opentelemetry-instrumentation-openai-v2"
INSTRUMENTATIONS: Final = (
    Instrumentation("OpenInference: OpenAI", "openinference-instrumentation-openai", ("openinference-openai-01",)),
    Instrumentation(
        "OpenInference: Anthropic", "openinference-instrumentation-anthropic", ("openinference-anthropic-01",)
    ),
    Instrumentation("OpenInference: LangGraph", "openinference-instrumentation-langchain", ("langgraph-rag-01",)),
    Instrumentation("OpenLLMetry", "opentelemetry-instrumentation-openai", ("openllmetry-openai-01",)),
    Instrumentation("OpenLLMetry, decorators", "traceloop-sdk", ("traceloop-sdk-01",)),
    Instrumentation("OpenLLMetry, older", "traceloop-sdk", ("openllmetry-classic-01",)),
    Instrumentation("OpenTelemetry GenAI, with content", _OPENAI_V2, ("genai-openai-v2-01",)),
    Instrumentation("OpenTelemetry GenAI, by default", _OPENAI_V2, ("genai-openai-v2-legacy-01",)),
    Instrumentation("OpenTelemetry GenAI, older", _OPENAI_V2, ("genai-openai-v2-older-01",)),
    Instrumentation("Pydantic AI", "pydantic-ai-slim", tuple(f"pydantic-ai-agent-0{at}" for at in range(1, 5))),
    Instrumentation("Pydantic AI, older", "pydantic-ai-slim", ("pydantic-ai-v1-01",)),
    Instrumentation("AI SDK", "ai", ("vercel-ai-v7-01",)),
    Instrumentation("AI SDK 6", "ai", ("vercel-ai-v6-01",)),
    Instrumentation("AI SDK, older", "ai", ("vercel-ai-v5-01",)),
    Instrumentation("Langfuse", "langfuse", ("langfuse-sdk-01", "langfuse-sdk-02")),
    Instrumentation(
        "OpenInference: OpenAI Agents",
        "openinference-instrumentation-openai-agents",
        ("agents-openinference-01",),
    ),
    Instrumentation("OpenInference: Haystack", "openinference-instrumentation-haystack", ("haystack-01",)),
    Instrumentation("OpenInference: LlamaIndex", "openinference-instrumentation-llama-index", ("llama-index-01",)),
    Instrumentation("OpenInference: DSPy", "openinference-instrumentation-dspy", ("dspy-01",)),
    Instrumentation("OpenInference: smolagents", "openinference-instrumentation-smolagents", ("smolagents-01",)),
    Instrumentation("OpenInference: instructor", "openinference-instrumentation-instructor", ("instructor-01",)),
    Instrumentation("OpenInference: agno", "openinference-instrumentation-agno", ("agno-openinference-01",)),
    Instrumentation(
        "OpenTelemetry GenAI: OpenAI", "opentelemetry-instrumentation-genai-openai", ("parallel-genai-01",)
    ),
    Instrumentation(
        "OpenTelemetry GenAI: Google", "opentelemetry-instrumentation-google-genai", ("google-genai-otel-01",)
    ),
    Instrumentation(
        "OpenTelemetry GenAI: Google, with content",
        "opentelemetry-instrumentation-google-genai",
        ("google-genai-content-01",),
    ),
    Instrumentation(
        "OpenInference: Google", "openinference-instrumentation-google-genai", ("google-genai-openinference-01",)
    ),
    Instrumentation("Microsoft Agent Framework", "agent-framework-core", ("agent-framework-01",)),
    Instrumentation("FastMCP", "fastmcp", ("fastmcp-01",)),
    Instrumentation("OpenLLMetry: MCP", "opentelemetry-instrumentation-mcp", ("mcp-openllmetry-01",)),
    Instrumentation("MLflow", "mlflow", ("mlflow-01",)),
    Instrumentation("Google ADK 2", "google-adk", ("adk-2-01",)),
    Instrumentation("Semantic Kernel", "semantic-kernel", ("semantic-kernel-01",)),
    Instrumentation("Logfire: OpenAI Agents", "logfire", ("agents-logfire-01",)),
    Instrumentation("LiteLLM", "litellm", ("litellm-otel-01",)),
    Instrumentation("LangSmith", "langsmith", ("langsmith-otel-01",)),
    Instrumentation("Laminar", "lmnr", ("laminar-sdk-01",)),
    Instrumentation("Google ADK 1", "google-adk", ("adk-01",)),
    Instrumentation("Claude Code", "claude-code", ("claude-code-01",)),
    Instrumentation("OpenLIT", "openlit", ("openlit-01",)),
    Instrumentation("AutoGen", "autogen-agentchat", ("autogen-01",)),
    Instrumentation("CrewAI, OpenInference", "crewai", ("crewai-01",)),
    Instrumentation("Strands", "strands-agents", ("strands-latest-01",)),
    Instrumentation("Strands, older", "strands-agents", ("strands-01",)),
    Instrumentation("Agenta SDK", "agenta", ("agenta-sdk-01", "agenta-sdk-02")),
    Instrumentation("Agenta SDK: LiteLLM", "agenta", ("agenta-litellm-01", "agenta-litellm-02")),
    Instrumentation("OpenTelemetry SDK", "opentelemetry-sdk", ("plain-sdk-01",)),
    Instrumentation("OpenTelemetry SDK, Go", "go.opentelemetry.io/otel", ("plain-sdk-go-01",)),
)


def presence_table() -> str:
    """What the samples of each instrumentation hold, of how many that could hold it."""
    versions = _versions()
    rows = []
    for each in INSTRUMENTATIONS:
        pairs = [pair for name in each.samples for pair in zip(spans_of(name), normals_of(name), strict=True)]
        rows.append((f"{each.title} {versions[each.samples[0]][each.library].removeprefix('v')}", *_presence(pairs)))
    usage, content = ("kind", "model", "tokens", "cost"), ("inputs", "outputs", "tools", "arguments", "results")
    columns = (*usage, *content, "session", "user", "errors")
    return _table(("", *columns), rows)


def _presence(pairs: _Pairs) -> Iterable[str]:
    calls = [pair for pair in pairs if pair[1].span_type in MODEL_CALLS]
    answered = [normalized for span, normalized in calls if not _is_failed(span)]
    tools = [pair for pair in pairs if pair[1].span_type == "tool"]
    yield _share("span" in _ag(normalized)["type"] for _, normalized in pairs)
    yield _share(map(_names_model, (normalized for _, normalized in calls)))
    yield _share("incremental" in _ag(normalized)["metrics"]["tokens"] for normalized in answered)
    yield _share("incremental" in _ag(normalized)["metrics"].get("costs", {}) for normalized in answered)
    yield _share("inputs" in _ag(normalized)["data"] for _, normalized in calls)
    yield _share("outputs" in _ag(normalized)["data"] for normalized in answered if normalized.span_type != "embedding")
    yield _tools(pairs)
    yield _share("inputs" in _ag(normalized)["data"] for _, normalized in tools)
    yield _share("outputs" in _ag(normalized)["data"] for span, normalized in tools if not _is_failed(span))
    yield _share(_by_trace(pairs, "session"))
    yield _share(_by_trace(pairs, "user"))
    yield _share("exception" in _ag(normalized) for span, normalized in pairs if _is_failed(span))


def _by_trace(pairs: _Pairs, member: str) -> Iterable[bool]:
    """Whether any span has the member of ``ag``, for each trace."""
    found: dict[bytes, bool] = {}
    for span, normalized in pairs:
        found[span.trace_id] = found.get(span.trace_id, False) or member in _ag(normalized)
    return found.values()


def _names_model(normalized: NormalizedSpan) -> bool:
    meta, parameters = _ag(normalized).get("meta", {}), _ag(normalized)["data"].get("parameters", {})
    return any("model" in where for where in (meta.get("request", {}), meta.get("response", {}), parameters))


def _tools(pairs: _Pairs) -> str:
    requested = sum(
        len(message.get("tool_calls", ()))
        for _, normalized in pairs
        if normalized.span_type in MODEL_CALLS
        for message in _messages(_ag(normalized)["data"].get("outputs"))
    )
    ran = sum(normalized.span_type == "tool" for _, normalized in pairs)
    counts = [f"{count} {word}" for count, word in ((requested, "requested"), (ran, "run")) if count]
    return ", ".join(counts) or "–"


def _messages(outputs: Any) -> Sequence[dict[str, Any]]:
    messages = outputs.get("messages", ()) if isinstance(outputs, dict) else ()
    return [message for message in messages if isinstance(message, dict)]


def _is_failed(span: Span) -> bool:
    return span.status_code == StatusCode.STATUS_CODE_ERROR or any(
        each.name in EXCEPTION_EVENTS for each in span.events
    )


def _share(held: Iterable[bool]) -> str:
    each = list(held)
    if not any(each):
        return "–"
    return f"all {len(each)}" if all(each) else f"{sum(each)} of {len(each)}"


def _versions() -> Mapping[str, Mapping[str, str]]:
    """Sample → library → version."""
    files = orjson.loads((SAMPLES / "manifest.json").read_bytes())["files"]
    return {each["file"].partition(".")[0]: each["versions"] for each in files}


def _ag(normalized: NormalizedSpan) -> dict[str, Any]:
    ag: dict[str, Any] = normalized.attributes["ag"]
    return ag


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "presence": presence_table,
    "ag_attributes": ag_attributes_table,
    "genai-registry": registry_table,
    "genai-operations": operations_table,
    **{convention.name: partial(mapping_table, convention) for convention in CONVENTIONS},
}
"""The parts that there are, by name."""
