"""From spans as sent to spans as returned: attributes nested, ``ag`` canonical, everything else derived (reference
§2.2, §3).

Combines the steps, and computes what follows from the rest of the span: typed texts and older names (``ag``), nesting
(``common/nesting``), other instrumentations (``semconv``), the shape of ``ag`` with references and their hashes
(``ag``), costs, failures, and the roll-up inside the record (``rollup``). Attributes of other instrumentations are kept
next to the ``ag`` that they are mapped to; what was sent as ``ag`` wins over it (reference §4.5). What depends on the
keys of the attributes alone is planned once per set of keys (``common/plans``). Attributes that only an event of the
span has, as some conventions send content, count for ``ag`` like its own (``semconv/details``).

Pure, and total on JSON-ready spans: nothing raises, nothing that was sent is changed (resources and values are shared).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final, NamedTuple

from common.json_values import json_number, scalar_text
from common.nesting import Nesting, Shape, shape_of
from common.plans import Keys, Plans
from common.prices.file import list_prices
from common.prices.table import PriceTable
from common.score import SCORES_MAX
from common.span import (
    NO_METRICS,
    PROMOTED_TEXTS,
    Attributes,
    Event,
    Metrics,
    NormalizedSpan,
    Span,
    StatusCode,
    Value,
)
from common.usage import is_amount, rounded
from ingest.ag import (
    as_number,
    canonical_ag,
    decode_ag_attributes,
    empty_ag,
    hashes_of,
    references_of,
    references_sent,
)
from ingest.masking.derived import masked_ag
from ingest.masking.planned import PlannedMask
from ingest.rollup import roll_up, without_duplicate_usage
from ingest.semconv.conventions import USAGE_ROOTS
from ingest.semconv.details import with_details
from ingest.semconv.engine import Mapped, map_attributes, united
from ingest.semconv.evaluations import with_evaluations
from ingest.semconv.events import with_events
from ingest.semconv.key_mapping import KeyMapping, mapping_of
from ingest.semconv.named_spans import with_named_kind
from ingest.semconv.prices import add_costs
from ingest.semconv.prompt_tokens import include_parts

PLANS_MAX: Final = 512

EXCEPTION_EVENTS: Final = frozenset({"exception", "gen_ai.client.operation.exception"})
"""Names of events that say what went wrong, in the attributes ``exception.*``."""

_IDENTITY: Final = ("exception.type", "exception.message")
_NOTHING: Final[dict[str, Any]] = {}
_STOPPED_BY_ERROR: Final = "error"

_PROMOTED_FIRST: Final = len(Span._fields) - len(PROMOTED_TEXTS)


class KeyPlan(NamedTuple):
    """What follows from the keys of a span's attributes, whatever their values."""

    has_ag_attributes: bool
    shape: Shape | None
    mapping: KeyMapping | None
    roots: frozenset[str]
    """The first segments of the keys."""

    has_usage: bool
    """Whether some of them are about usage."""


def _planned(keys: Keys) -> KeyPlan:
    roots = frozenset(key.partition(".")[0] for key in keys)
    has_ag_attributes = any(key.startswith("ag.") for key in keys)
    return KeyPlan(has_ag_attributes, shape_of(keys), mapping_of(keys), roots, not USAGE_ROOTS.isdisjoint(roots))


_plans: Final = Plans(_planned, max_count=PLANS_MAX)


def plan_of(keys: Keys) -> KeyPlan:
    """Return the plan of a span with these keys, in their order."""
    return _plans.of(keys)


def _mapping_of(keys: Keys) -> KeyMapping | None:
    return _plans.of(keys).mapping


def normalize(
    spans: Sequence[Span], prices: PriceTable | None = None, mask: PlannedMask | None = None
) -> list[NormalizedSpan]:
    """Return what is derived from each span of one record, in their order.

    A trace is an annotation if any of its spans in this record has links, even an empty list. Sums over the descendants
    of a span cover only this record; a running span has none. Model calls without a cost get one from ``prices``, by
    default the built-in table.

    Normalizing the result again changes nothing, so API responses can be published again as records. A span that is
    published alone loses the part of its cumulative metrics that its children had added. ``mask`` is for spans that are
    masked already: it masks what is derived from them under its own paths.
    """
    annotated = {span.trace_id for span in spans if span.links is not None}
    table = prices or list_prices()
    normalized_spans = [
        _normalized(span, "annotation" if span.trace_id in annotated else "invocation", table, mask) for span in spans
    ]
    normalized_spans = without_duplicate_usage(spans, normalized_spans)
    own = [normalized.metrics for normalized in normalized_spans]
    if any(metrics is not NO_METRICS for metrics in own):
        always = {index for index, normalized in enumerate(normalized_spans) if normalized.usage_is_own}
        computed = {index for index, normalized in enumerate(normalized_spans) if normalized.cost_is_computed}
        sums = roll_up(spans, own, always, computed)
        for span, normalized, cumulative in zip(spans, normalized_spans, sums, strict=True):
            if cumulative is not NO_METRICS and not span.is_running:
                write_cumulative(normalized.ag["metrics"], cumulative)
    return normalized_spans


def _normalized(span: Span, trace_type: str, prices: PriceTable, mask: PlannedMask | None) -> NormalizedSpan:
    sent = span.attributes
    plan = _plans.of(tuple(sent))
    if plan.has_ag_attributes:
        sent = decode_ag_attributes(sent)
        plan = _plans.of(tuple(sent))
    attributes = Nesting(sent, plan.shape)
    source, source_plan = _with_details(attributes, plan, span.events) if span.events else (attributes, plan)
    mapped = _mapped(span, source, source_plan.mapping)
    sent_ag = attributes.nested().get("ag") if "ag" in plan.roots else None
    ag = _ag(sent_ag, None if mapped is None else mapped.ag, trace_type)
    error_type = _error_type(source.nested()) if "error" in source_plan.roots else None
    failure = _failure_of(span, error_type, None if mapped is None else mapped.ag)
    if failure is not None and not _has_exception(sent_ag):
        ag["exception"] = failure
    _write_computed(ag, span)
    cost_is_computed = add_costs(ag, prices)
    if mask is not None:
        ag = masked_ag(ag, mask)
    references = references_of(ag["references"]) if "references" in ag else references_sent(span.references or ())
    hashes = hashes_of(references, span.links or ()) if references or span.links else None
    metrics = _own_metrics(ag["metrics"], cost_is_computed=cost_is_computed)
    scores = with_evaluations(span.scores, span.events) if span.scores or span.events else ()
    return NormalizedSpan(
        attributes,
        ag,
        trace_type,
        ag["type"].get("span", "task"),
        references or None,
        hashes or span.hashes or None,
        metrics,
        sent if plan.shape is not None and sent_ag is None else None,  # flat
        () if mapped is None else mapped.mapping_errors,
        metrics is not NO_METRICS and not source_plan.has_usage,  # usage_is_own
        cost_is_computed,
        scores[:SCORES_MAX],
        max(span.dropped_scores_count, len(scores) - SCORES_MAX),
        *(_promoted(ag) if span.parent_id is None else span[_PROMOTED_FIRST:]),
    )


def _with_details(attributes: Nesting, plan: KeyPlan, events: Iterable[Event]) -> tuple[Nesting, KeyPlan]:
    """Return what ``ag`` is derived from, and its plan: the attributes of a span, and those that only events have."""
    united = with_details(attributes.flat, events)
    if united is attributes.flat:
        return attributes, plan
    plan = _plans.of(tuple(united))
    return Nesting(united, plan.shape), plan


def _mapped(span: Span, source: Nesting, mapping: KeyMapping | None) -> Mapped | None:
    """Return what a convention says about a span with the attributes ``source``; ``None`` if it follows none."""
    mapped = map_attributes(mapping, source.flat, source.nested, _mapping_of)
    mapped = with_named_kind(mapped, span.scope.name, span.name)
    if mapped is None:
        return None
    if span.events:
        mapped = with_events(mapped, span.events)
    if tokens := _tokens_with_parts(mapped.ag):
        include_parts(tokens, mapped.ag, span.scope.name, source.nested())
    return mapped


def _tokens_with_parts(mapped: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the tokens that a span reports itself, if some are of the provider's cache or of reasoning."""
    tokens: dict[str, Any] = mapped.get("metrics", _NOTHING).get("tokens", _NOTHING).get("incremental", _NOTHING)
    return tokens if tokens.get("cached") or tokens.get("reasoning") or tokens.get("cache_write") else None


def _ag(sent: Value, mapped: dict[str, Any] | None, trace_type: str) -> dict[str, Any]:
    """Return the canonical ``ag`` of what was sent as ``ag`` and what was mapped, which is canonical already."""
    if mapped is None:
        return empty_ag(trace_type) if sent is None else canonical_ag(sent, trace_type=trace_type)
    if sent is not None:
        return united(
            mapped, canonical_ag(sent, trace_type=trace_type)
        )  # what cannot be read in `sent` replaces nothing
    ag = empty_ag(trace_type)
    for name, member in mapped.items():
        if name in ("type", "metrics"):
            ag[name].update(member)
        else:
            ag[name] = member
    return ag


def _promoted(ag: dict[str, Any]) -> list[str | None]:
    """Return the promoted texts of a root, in the order of ``PROMOTED_TEXTS``."""
    texts: list[str | None] = []
    for _, steps in PROMOTED_TEXTS.values():
        value: Any = ag
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        texts.append(scalar_text(value))
    return texts


def _has_exception(sent: Value) -> bool:
    return isinstance(sent, dict) and isinstance(sent.get("exception"), dict)


def _failure_of(span: Span, error_type: str | None, mapped: Mapping[str, Any] | None) -> dict[str, str] | None:
    """Return ``{type?, message?}`` of what went wrong, which becomes ``ag.exception``; ``None`` if nothing did.

    Some instrumentations record an event of the exception, some send ``error.type`` and a status, some a status alone.
    The last event counts, on any span; what it omits comes from the others. The others alone count only if the span
    follows a convention: a status says little about other spans. ``error_type`` is what its attributes say, ``mapped``
    is what its convention says, if it follows one: its ``exception`` completes the rest.
    """
    if mapped is None and not span.events:
        return None
    event = next((event for event in reversed(span.events) if event.name in EXCEPTION_EVENTS), None)
    if event is None and (mapped is None or not (error_type or _is_failed(span, mapped))):
        return None
    said = {} if event is None else event.attributes
    members = {
        "type": scalar_text(said.get("exception.type")) or error_type,
        "message": scalar_text(said.get("exception.message")) or span.status_message,
    }
    mapped_members = {} if mapped is None else mapped.get("exception", {})
    return mapped_members | {name: text for name, text in members.items() if text}


def _exceptions_count(events: Iterable[Event]) -> int:
    """Return the number of different exceptions among events: those of one type and message are one.

    Libraries record an exception and raise it again, and whatever ends the span records it a second time. Events that
    say neither type nor message cannot be compared: each of them counts.
    """
    said = [
        tuple(scalar_text(event.attributes.get(key)) for key in _IDENTITY)
        for event in events
        if event.name in EXCEPTION_EVENTS
    ]
    if len(said) < 2:
        return len(said)
    comparable = [texts for texts in said if any(texts)]
    return len(set(comparable)) + len(said) - len(comparable)


def _error_type(nested: Attributes) -> str | None:
    """Return ``error.type``, which stays dotted next to an ``error`` that is not an object, as in OpenTracing."""
    error = nested.get("error")
    return scalar_text(error.get("type") if isinstance(error, dict) else nested.get("error.type"))


def _is_failed(span: Span, mapped: Mapping[str, Any]) -> bool:
    if "exception" in mapped or span.status_code == StatusCode.STATUS_CODE_ERROR:
        return True
    return _STOPPED_BY_ERROR in mapped.get("meta", {}).get("response", {}).get("finish_reasons", ())


def _write_computed(ag: dict[str, Any], span: Span) -> None:
    metrics = ag["metrics"]
    micros = (span.end_ns - span.start_ns + 500) // 1000
    if micros > 0:
        metrics["duration"]["cumulative"] = micros / 1000 if micros % 1000 else micros // 1000
    if span.events:
        metrics["errors"]["incremental"] = _exceptions_count(span.events)
    if "exception" in ag:  # an error, even without an event
        metrics["errors"]["incremental"] = max(1, metrics["errors"].get("incremental", 0))
    if ag["type"].get("span") == "tool":
        _name_tool(ag, span.name)


def _name_tool(ag: dict[str, Any], name: str) -> None:
    """Give a tool without a name the name of its span, so that tool calls are found by one path."""
    meta = ag.get("meta", {})
    tool = meta.get("tool", {})
    if isinstance(tool, dict) and "name" not in tool and name:
        ag["meta"] = {**meta, "tool": {**tool, "name": name}}


def _own_metrics(metrics: dict[str, Any], *, cost_is_computed: bool) -> Metrics:
    tokens, costs = metrics["tokens"].get("incremental"), metrics["costs"].get("incremental")
    errors = as_number(metrics["errors"].get("incremental"))
    if not (tokens or costs or errors):
        return NO_METRICS
    own = Metrics(
        *(_amounts(tokens) if tokens else _NO_AMOUNTS),
        *((_amounts if cost_is_computed else _costs)(costs) if costs else _NO_AMOUNTS),  # ours are rounded
        errors=float(errors or 0),
    )
    return own if any(own) else NO_METRICS


_NO_AMOUNTS: Final = (0.0, 0.0, 0.0)


def _amounts(incremental: dict[str, Any]) -> tuple[float, float, float]:
    """Return prompt, completion and total; a total that was not sent is the sum of the two."""
    prompt = float(as_number(incremental.get("prompt")) or 0)
    completion = float(as_number(incremental.get("completion")) or 0)
    total = as_number(incremental.get("total"))
    return prompt, completion, prompt + completion if total is None else float(total)


def _costs(incremental: dict[str, Any]) -> tuple[float, float, float]:
    """Return what sums add of the costs: nothing of one that is so large that it is no amount of money."""
    prompt, completion, total = (rounded(amount) if is_amount(amount) else 0.0 for amount in _amounts(incremental))
    return prompt, completion, total


def write_cumulative(metrics: dict[str, Any], cumulative: Metrics) -> None:
    """Overwrite the sums that were sent with ours, except with zeros and with sums past the largest double."""
    tokens_prompt, tokens_completion, tokens_total, costs_prompt, costs_completion, costs_total, errors = cumulative
    if tokens := _amounts_of(tokens_prompt, tokens_completion, tokens_total):
        metrics["tokens"]["cumulative"] = tokens
    if costs := _amounts_of(costs_prompt, costs_completion, costs_total):
        metrics["costs"]["cumulative"] = costs
    if errors and isfinite(errors):
        metrics["errors"]["cumulative"] = json_number(errors)


def _amounts_of(prompt: float, completion: float, total: float) -> dict[str, int | float] | None:
    if not (prompt or completion or total) or not (isfinite(prompt) and isfinite(completion) and isfinite(total)):
        return None
    amounts = {"prompt": prompt, "completion": completion, "total": total}
    return {name: json_number(amount) for name, amount in amounts.items() if amount}
