"""Small requests of spans that were reported as read wrongly (``tests/data/cases``), as OTLP/JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from common.codec import otlp_json
from common.limits import SpanLimits
from common.span import NormalizedSpan
from ingest.normalize import normalize

CASES = Path(__file__).parents[1] / "data/cases"
NOW_NS = 1_800_000_000_000_000_000


def normalized_case(name: str) -> list[NormalizedSpan]:
    """Return what is derived from the spans of a case, in their order."""
    value = (CASES / f"{name}.json").read_bytes()
    return normalize(otlp_json.decode(value, limits=SpanLimits(), now_ns=NOW_NS).spans)


def ags_of(name: str) -> list[dict[str, Any]]:
    """Return their ``ag``."""
    return [normalized.attributes["ag"] for normalized in normalized_case(name)]


def tokens_of(ag: dict[str, Any]) -> dict[str, int]:
    """Return the tokens that a span reports itself."""
    tokens: dict[str, int] = ag["metrics"]["tokens"]["incremental"]
    return tokens


def cost_of(ag: dict[str, Any]) -> float:
    """Return the cost of a span itself."""
    cost: float = ag["metrics"]["costs"]["incremental"]["total"]
    return cost
