"""What the tokens of a prompt include: decided by who reports them for which provider, in one table.

In ``ag``, as in the GenAI conventions and OpenInference, the prompt includes the tokens that were read from the
provider's cache and those written to it. Anthropic's API counts these separately, and so does Bedrock's Converse
API. Most instrumentations add them up; those in the table pass the provider's numbers on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from common.span import Attributes
from ingest.semconv.engine import TOTAL_END


class ExclusivePrompt(NamedTuple):
    """A reporter whose prompt lacks the tokens of the cache, for the calls of these providers.

    ``scope``: the name of its scope, or any if empty. ``has`` and ``lacks``: paths of attributes that its spans have,
    and that spans of its other versions have instead.
    """

    reporter: str
    providers: frozenset[str]
    scope: str = ""
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


_ANTHROPIC: Final = frozenset({"anthropic"})

EXCLUSIVE_PROMPTS: Final = (
    ExclusivePrompt("agno, by OpenInference", _ANTHROPIC, scope="openinference.instrumentation.agno"),
    ExclusivePrompt("OpenLIT", _ANTHROPIC, scope="openlit.instrumentation.anthropic"),
    ExclusivePrompt(
        "AI SDK 5",
        frozenset({"anthropic", "aws.bedrock", "vertex.anthropic"}),
        has=("ai", "usage"),
        lacks=("ai", "usage", "inputTokenDetails"),
    ),
)

_NOTHING: Final[Mapping[str, Any]] = {}


def include_cache(tokens: dict[str, Any], mapped: Mapping[str, Any], scope: str, nested: Attributes) -> None:
    """Add the tokens of the cache to the prompt among ``tokens``, and to their total, if the prompt lacks them.

    ``tokens`` are those of a span's own, named as in ``ag.metrics.tokens.incremental`` of ``mapped``: what was mapped
    from its attributes, ``nested``. ``scope`` is the name of its scope.
    """
    prompt, cache = tokens.get("prompt"), tokens.get("cached", 0) + tokens.get("cache_write", 0)
    if prompt is None:
        return
    without_cache = prompt + tokens.get("completion", 0)
    if without_cache + cache >= TOTAL_END:
        return
    total = tokens.get("total", without_cache)
    is_counted = total == without_cache + cache  # a total with the cache tells what the prompt lacks
    if is_counted or _is_exclusive(mapped.get("meta", _NOTHING).get("system"), scope, nested):
        tokens["prompt"] = prompt + cache
        tokens["total"] = total + cache if total == without_cache else total


def _is_exclusive(provider: Any, scope: str, nested: Attributes) -> bool:
    return any(
        provider in reporter.providers
        and reporter.scope in ("", scope)
        and (not reporter.has or _has(nested, reporter.has))
        and not (reporter.lacks and _has(nested, reporter.lacks))
        for reporter in EXCLUSIVE_PROMPTS
    )


def _has(nested: Attributes, path: tuple[str, ...]) -> bool:
    value: Any = nested
    for segment in path:
        if not isinstance(value, dict) or segment not in value:
            return False
        value = value[segment]
    return True
