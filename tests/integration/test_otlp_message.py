"""Every sample as it came in, against what is sent out again: equal, except for what ``docs/span-as-otlp.md`` lists."""

from __future__ import annotations

import base64
import math
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.settings import ClickHouseSettings
from query_api.delivery.targets.otlp_message import export_request
from tests.support.sample_records import NAMES, SAMPLES, SPANS_COUNT
from tests.support.stored_samples import StoredSamples, stored_samples

WHOLE_DOUBLES = {"double.zero", "double.minus_zero", "double.whole"}
NOT_FINITE = {"double.nan", "double.inf", "double.minus_inf"}
BYTES = {"bytes", "bytes.empty", "bytes.text", "digest"}
MAPS = {"limits", "limits.cpu", "limits.memory"}
NUMBERED = {"list", "list.0", "list.1"}
COLLIDING = {"a..b", "a."}
SEVERAL = {"array.mixed", "map", "map.empty"}
DIFFERENT = {
    "genai-openai-v2-01": {"gen_ai.request.temperature"},
    "litellm-otel-01": {
        f"gen_ai.cost.{name}"  # 0.0, as of those below
        for name in (
            *("discount_amount", "discount_percent", "margin_fixed_amount", "margin_percent", "margin_total_amount"),
            "tool_usage_cost",
        )
    },
    "openlit-01": {
        f"gen_ai.request.{name}" for name in ("frequency_penalty", "presence_penalty", "temperature", "top_p")
    },
    "plain-sdk-services-01": {"amount"},
    "plain-sdk-go-01": {
        *("box", "box.colour", "box.size.h", "box.size.w", "shelf", "shelf.cold", "shelf.row"),
        *("code", "label"),
    },
    "plain-sdk-01": WHOLE_DOUBLES | NOT_FINITE | BYTES | MAPS | NUMBERED | COLLIDING | SEVERAL,
}
"""By record the attributes that differ in type or key; all others are equal. Those below ``ag`` are left out."""


@pytest.fixture
async def samples(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[StoredSamples]:
    async with stored_samples(chdb_settings(), chdb_dir) as opened:
        yield opened


async def test_every_sample_is_sent_as_it_came(samples: StoredSamples) -> None:
    received = ExportTraceServiceRequest.FromString(export_request(await samples.spans()).SerializeToString())
    sent_out = dict(_parts(received))
    different: dict[str, set[str]] = {}
    equal = 0

    for name in NAMES:
        for key, came_in in _parts(
            ExportTraceServiceRequest.FromString((SAMPLES / f"{name}.otlp_proto.bin").read_bytes())
        ):
            equal += list(map(_sorted, sent_out[key])) == list(map(_sorted, came_in))
            for sent, original in zip(sent_out[key], came_in, strict=True):
                assert _without_attributes(sent) == _with_name_shown(original)
                assert _leaves(sent.attributes) == _leaves(original.attributes)
                different.setdefault(name, set()).update(_differing(sent, original))

    assert len(sent_out) == SPANS_COUNT
    assert len(sent_out) - equal == 53  # spans with the attributes below
    assert {name: keys for name, keys in different.items() if keys} == DIFFERENT


def _parts(request: Any) -> Iterator[tuple[tuple[bytes, bytes], list[Any]]]:
    """Yield the identity of each span, and everything that holds attributes: resource, scope, span, events, links."""
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                parts = [resource_spans.resource, scope_spans.scope, span, *span.events, *span.links]
                yield (span.trace_id, span.span_id), parts


def _sorted(message: Any) -> list[Any]:
    """Return everything but the spans of a scope, with attributes in the order of their keys."""
    attributes = sorted((each.key, each.value.SerializeToString(deterministic=True)) for each in message.attributes)
    return [_without_attributes(message).SerializeToString(deterministic=True), *map(repr, attributes)]


def _without_attributes(message: Any) -> Any:
    bare = type(message).FromString(message.SerializeToString())
    for part in (bare, *getattr(bare, "events", ()), *getattr(bare, "links", ())):
        del part.attributes[:]
    return bare


def _with_name_shown(message: Any) -> Any:
    """Return it without attributes; Logfire's message is the name of a span whose name is the template of it."""
    bare = _without_attributes(message)
    values = {each.key: each.value.string_value for each in message.attributes}
    if "logfire.msg" in values and values.get("logfire.msg_template") == getattr(bare, "name", None):
        bare.name = values["logfire.msg"]
    return bare


def _differing(sent: Any, original: Any) -> set[str]:
    left, right = ({each.key: each.value for each in message.attributes} for message in (sent, original))
    return {key for key in left.keys() | right.keys() if not key.startswith("ag.") and left.get(key) != right.get(key)}


def _leaves(attributes: Any) -> dict[str, Any]:
    """Return every scalar and empty container by its path, typed; numbers, bytes and keys as the page lists them."""
    found: dict[str, Any] = {}
    for each in attributes:
        if not each.key.startswith("ag."):
            found.update(_below(each.key, each.value))
    return found


def _below(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    kind = value.WhichOneof("value")
    if kind == "array_value" and value.array_value.values:
        for index, element in enumerate(value.array_value.values):
            yield from _below(f"{path}.{index}", element)
    elif kind == "kvlist_value" and value.kvlist_value.values:
        for member in value.kvlist_value.values:
            yield from _below(f"{path}.{member.key}", member.value)
    else:
        yield path, _scalar(kind, None if kind is None else getattr(value, kind))


def _scalar(kind: str | None, value: Any) -> tuple[str | None, Any]:
    if kind == "bytes_value":
        return "string_value", base64.b64encode(value).decode()
    if kind == "double_value" and not math.isfinite(value):
        return "string_value", "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if kind == "double_value" and value.is_integer() and abs(value) < 2**63:
        return "int_value", int(value)
    return kind, str(value) if kind in ("array_value", "kvlist_value") else value
