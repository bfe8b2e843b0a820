"""What the tokens of prompts and completions include: decided by who reports them for which provider, in two tables.

In ``ag``, as in the GenAI conventions and OpenInference, the prompt includes the tokens that were read from the
provider's cache and those written to it, and the completion includes those of reasoning. Anthropic's API counts those
of the cache separately, and so does Bedrock's Converse API; Gemini's counts its thoughts separately. Most
instrumentations add them up; those in the tables pass the provider's numbers on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

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
    ExclusiveCount("Claude Code, log records", _ANTHROPIC, has=("claude_code", "event")),
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

_Reporters: TypeAlias = Mapping[str, Sequence[ExclusiveCount]]


def _by_provider(reporters: Sequence[ExclusiveCount]) -> _Reporters:
    providers = {provider for reporter in reporters for provider in reporter.providers}
    return {name: [reporter for reporter in reporters if name in reporter.providers] for name in providers}


_PROMPTS: Final = _by_provider(EXCLUSIVE_PROMPTS)
_COMPLETIONS: Final = _by_provider(EXCLUSIVE_COMPLETIONS)
_NOTHING: Final[Mapping[str, Any]] = {}


def include_parts(tokens: dict[str, Any], mapped: Mapping[str, Any], scope: str, nested: Attributes) -> None:
    """Add the tokens of reasoning to the completion, and those of the cache to the prompt, if these lack them; and to
    their total.

    ``tokens`` are those of a span's own, named as in ``ag.metrics.tokens.incremental`` of ``mapped``: what was mapped
    from its attributes, ``nested``. ``scope`` is the name of its scope.
    """
    provider = mapped.get("meta", _NOTHING).get("system")
    parts = (
        ("completion", tokens.get("reasoning", 0), _COMPLETIONS),
        ("prompt", tokens.get("cached", 0) + tokens.get("cache_write", 0), _PROMPTS),
    )
    for side, part, reporters in parts:
        if not part or side not in tokens:
            continue
        without = tokens.get("prompt", 0) + tokens.get("completion", 0)
        total = tokens.get("total", without)
        is_told = total == without + part  # a total with the part tells that the count lacks it
        is_exclusive = is_told or (provider in reporters and _is_exclusive(reporters[provider], scope, nested))
        if is_exclusive and without + part < TOTAL_END:
            tokens[side] += part
            tokens["total"] = total + part if total == without else total


def _is_exclusive(reporters: Sequence[ExclusiveCount], scope: str, nested: Attributes) -> bool:
    return any(
        reporter.scope in ("", scope)
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
