"""The real records of a Collector (``tests/data/samples``) as spans."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from common.codec import otlp_json, otlp_protobuf
from common.limits import SpanLimits
from common.span import NormalizedSpan, Span
from ingest.normalize import normalize

SAMPLES = Path(__file__).parents[1] / "data/samples"
NAMES = sorted(path.name.removesuffix(".otlp_json.json") for path in SAMPLES.glob("*.otlp_json.json"))
SPANS_COUNT = sum(
    file["spans"]
    for file in json.loads((SAMPLES / "manifest.json").read_bytes())["files"]
    if file["encoding"] == "otlp_proto"
)
"""The spans of all records, by the manifest."""

NOW_NS = 1_800_000_000_000_000_000
_LIMITS = SpanLimits()


@cache
def spans_of(name: str) -> Sequence[Span]:
    """The spans of a record, from protobuf."""
    return otlp_protobuf.decode((SAMPLES / f"{name}.otlp_proto.bin").read_bytes(), limits=_LIMITS, now_ns=NOW_NS).spans


@cache
def spans_of_json(name: str) -> Sequence[Span]:
    """The same from JSON."""
    return otlp_json.decode((SAMPLES / f"{name}.otlp_json.json").read_bytes(), limits=_LIMITS, now_ns=NOW_NS).spans


@cache
def normals_of(name: str) -> Sequence[NormalizedSpan]:
    """What normalisation makes of them."""
    return normalize(spans_of(name))


def normal_named(name: str, span_name: str, *, at: int = 0) -> NormalizedSpan:
    """Of the spans with this name the one at this position, in the order of the record."""
    found = [
        normalized for span, normalized in zip(spans_of(name), normals_of(name), strict=True) if span.name == span_name
    ]
    return found[at]


def ag_named(name: str, span_name: str, *, at: int = 0) -> dict[str, Any]:
    """Its ``ag``."""
    ag: dict[str, Any] = normal_named(name, span_name, at=at).attributes["ag"]
    return ag
