"""All conventions, in the order in which they are applied: a later one wins (reference §4.5). ``ag.*`` attributes win
over all.
"""

from __future__ import annotations

from typing import Final

from ingest.semconv import converters as to
from ingest.semconv.adk import ADK
from ingest.semconv.claude_code import CLAUDE_CODE
from ingest.semconv.claude_code_events import CLAUDE_CODE_EVENTS
from ingest.semconv.codex import CODEX
from ingest.semconv.genai import GENAI
from ingest.semconv.laminar import LAMINAR
from ingest.semconv.langfuse import LANGFUSE
from ingest.semconv.langsmith import LANGSMITH
from ingest.semconv.litellm import LITELLM
from ingest.semconv.logfire import LOGFIRE
from ingest.semconv.mlflow import MLFLOW
from ingest.semconv.openinference import OPENINFERENCE
from ingest.semconv.openllmetry import OPENLLMETRY
from ingest.semconv.pydantic_ai import PYDANTIC_AI
from ingest.semconv.rows import Convention, Row
from ingest.semconv.spring_ai import SPRING_AI
from ingest.semconv.vercel import VERCEL

_LOGFIRE = r"logfire\."

OPENTELEMETRY: Final = Convention(
    "opentelemetry",
    "OpenTelemetry, general attributes",
    (
        Row(
            "mcp.method.name",
            "type.span",
            to.always("task"),
            note="unless another attribute names a kind, or a model",
            unless=r"gen_ai\.request\.model",
        ),
        Row("session.id", "session.id", to.TEXT, unless=_LOGFIRE),
        Row("enduser.id", "user.id", to.TEXT, generations="until 1.26"),
        Row("user.id", "user.id", to.TEXT, unless=_LOGFIRE),
    ),
)

CONVENTIONS: Final = (
    OPENTELEMETRY,
    OPENLLMETRY,
    LAMINAR,
    OPENINFERENCE,
    GENAI,
    PYDANTIC_AI,
    VERCEL,
    LOGFIRE,
    LANGFUSE,
    LITELLM,
    LANGSMITH,
    ADK,
    CLAUDE_CODE,
    CLAUDE_CODE_EVENTS,
    CODEX,
    MLFLOW,
    SPRING_AI,
)

USAGE_ROOTS: Final = frozenset(
    row.sources[0].partition(".")[0]
    for convention in CONVENTIONS
    for row in convention.rows
    if row.target.startswith("metrics.")
)
"""The first segments of all keys about usage, or of the first of those that are read together: a span without any of
them has no usage from an instrumentation.
"""
