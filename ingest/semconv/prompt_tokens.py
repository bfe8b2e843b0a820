"""What the tokens of prompts and completions include: decided by who reports them for which provider, in two tables.

In ``ag``, as in the GenAI conventions and OpenInference, the prompt includes the tokens that were read from the
provider's cache and those written to it, and the completion includes those of reasoning. Anthropic's API counts those
of the cache separately, and so does Bedrock's Converse API; Gemini's counts its thoughts separately. Most
instrumentations add them up; those in the tables pass the provider's numbers on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from common.span import Attributes
from ingest.semconv.engine import TOTAL_END


class ExclusiveCount(NamedTuple):
    """A reporter whose count lacks a part, for the calls of these providers.

    ``scope``: the name of its scope, or any if empty. ``has`` and ``lacks``: paths of attributes that its spans have,
    and that spans of its other versions have instead.
    """

    reporter: str
    providers: frozenset[str]
    scope: str = ""
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


_ANTHROPIC: Final = frozenset({"anthropic"})
_GEMINI: Final = frozenset({"gcp.gemini", "gcp.vertex_ai"})
_AI_USAGE: Final = ("ai", "usage")

EXCLUSIVE_PROMPTS: Final = (
    ExclusiveCount("agno, by OpenInference", _ANTHROPIC, scope="openinference.instrumentation.agno"),
    ExclusiveCount("OpenLIT", _ANTHROPIC, scope="openlit.instrumentation.anthropic"),
    ExclusiveCount(
        "AI SDK 5",
        frozenset({"anthropic", "aws.bedrock", "vertex.anthropic"}),
        has=_AI_USAGE,
        lacks=(*_AI_USAGE, "inputTokenDetails"),
    ),
)
"""Prompts that lack the tokens of the cache."""

EXCLUSIVE_COMPLETIONS: Final = (
    ExclusiveCount(
        "Google ADK 1",
        frozenset({"gcp.vertex.agent"}),  # the framework, which is all that it names
        scope="gcp.vertex.agent",
        lacks=("gen_ai", "usage", "reasoning"),
    ),
    ExclusiveCount("OpenLIT with Gemini", _GEMINI, scope="openlit.instrumentation.google_ai_studio"),
    ExclusiveCount("AI SDK 5 with Gemini", _GEMINI, has=_AI_USAGE, lacks=(*_AI_USAGE, "outputTokenDetails")),
)
"""Completions that lack the tokens of reasoning."""

_NOTHING: Final[Mapping[str, Any]] = {}


def include_parts(tokens: dict[str, Any], mapped: Mapping[str, Any], scope: str, nested: Attributes) -> None:
    """Add the tokens of reasoning to the completion, and those of the cache to the prompt, if these lack them; and to
    their total.

    ``tokens`` are those of a span's own, named as in ``ag.metrics.tokens.incremental`` of ``mapped``: what was mapped
    from its attributes, ``nested``. ``scope`` is the name of its scope.
    """
    provider = mapped.get("meta", _NOTHING).get("system")
    parts = (
        ("completion", tokens.get("reasoning", 0), EXCLUSIVE_COMPLETIONS),
        ("prompt", tokens.get("cached", 0) + tokens.get("cache_write", 0), EXCLUSIVE_PROMPTS),
    )
    for side, part, reporters in parts:
        if part and side in tokens and _lacks(tokens, part, reporters, provider, scope, nested):
            total = tokens.get("total", 0)
            is_without = total == _sum(tokens)
            tokens[side] += part
            tokens["total"] = total + part if is_without else total


def _lacks(
    tokens: Mapping[str, Any],
    part: int,
    reporters: tuple[ExclusiveCount, ...],
    provider: Any,
    scope: str,
    nested: Attributes,
) -> bool:
    """Return whether prompt and completion lack a part: a total with it tells, else the reporter."""
    without = _sum(tokens)
    if without + part >= TOTAL_END:
        return False
    return tokens.get("total") == without + part or _is_exclusive(reporters, provider, scope, nested)


def _sum(tokens: Mapping[str, Any]) -> int:
    total: int = tokens.get("prompt", 0) + tokens.get("completion", 0)
    return total


def _is_exclusive(reporters: tuple[ExclusiveCount, ...], provider: Any, scope: str, nested: Attributes) -> bool:
    return any(
        provider in reporter.providers
        and reporter.scope in ("", scope)
        and (not reporter.has or _has(nested, reporter.has))
        and not (reporter.lacks and _has(nested, reporter.lacks))
        for reporter in reporters
    )


def _has(nested: Attributes, path: tuple[str, ...]) -> bool:
    value: Any = nested
    for segment in path:
        if not isinstance(value, dict) or segment not in value:
            return False
        value = value[segment]
    return True
