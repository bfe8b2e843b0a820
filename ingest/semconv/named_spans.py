"""What the name of a span says, for libraries that say it nowhere else: its kind, and the agent or tool that it names.

One table by the scope of a library. Attributes win: a name counts only on a span whose attributes name no kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ingest.semconv.engine import Mapped


class NamedKind(NamedTuple):
    """Spans whose names begin in one way. ``named``: what the rest of the name is, ``agent`` or ``tool``; or empty."""

    beginning: str
    span_type: str
    named: str = ""


NAMED_KINDS: Final[Mapping[str, tuple[NamedKind, ...]]] = {
    "gcp.vertex.agent": (
        NamedKind("invocation", "workflow"),
        NamedKind("agent_run ", "agent", "agent"),
        NamedKind("call_llm", "chat"),
        NamedKind("execute_tool ", "tool", "tool"),
    ),
    "strands.telemetry.tracer": (NamedKind("Cycle ", "chain"), NamedKind("execute_event_loop_cycle", "chain")),
}
"""Scope → the kinds of its spans."""

_BRACKETS: Final = "[]"


def with_named_kind(mapped: Mapped | None, scope: str, name: str) -> Mapped | None:
    """Add the kind that the name says to what was mapped, with the agent or the tool that it names."""
    kinds = NAMED_KINDS.get(scope)
    if kinds is None or (mapped is not None and "span" in mapped.ag.get("type", {})):
        return mapped
    kind = next((kind for kind in kinds if name.startswith(kind.beginning)), None)
    if kind is None:
        return mapped
    ag = {"type": {"span": kind.span_type}, **_named(kind, name.removeprefix(kind.beginning).strip(_BRACKETS))}
    return Mapped(ag) if mapped is None else Mapped({**ag, **mapped.ag, "type": ag["type"]}, mapped.mapping_errors)


def _named(kind: NamedKind, rest: str) -> dict[str, Any]:
    if not rest or not kind.named:
        return {}
    if kind.named == "agent":
        return {"unsupported": {"agent": {"name": rest, "id": rest}}}
    return {"meta": {"tool": {"name": rest}}}
