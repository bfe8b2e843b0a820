"""Plain spans: those whose rows are written from a template of their keys (ADR 0029).

A span is plain if everything that is derived from it follows from its keys, except that values are repeated: its keys
do not collide, the conventions that they belong to, if any, only copy texts, its values are scalars, and it has neither
events nor links. Then its leaves have holes for the values, and spans with the same keys are written together. Each
rule stands once: the template of a set of keys is made by ``ingest/normalize.py``, from a span with marks for values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import orjson

from common.arrow_views import Numbers, offsets_of, ranges
from common.clickhouse.leaves import SpanLeaves, template_of
from common.codec.otlp_columns import AttributeArrays, SpanArrays
from common.codec.otlp_schema import BOOL, DOUBLE, INT, STRING
from common.plans import Keys, Plans
from common.span import PROMOTED_TEXTS, NormalizedSpan, Span, StatusCode
from ingest.normalize import normalize, plan_of
from ingest.semconv.converters import as_text

PLANS_MAX: Final = 512
KEYS_MAX: Final = 128
"""A span with more attributes is not plain."""

MICROS_END: Final = 10**12
"""A longer duration, eleven days, is not plain: its milliseconds may need more digits than a double has."""

TRACE_TYPE: Final = "invocation"
SPAN_TYPE: Final = "task"

_SCALARS: Final = (STRING, BOOL, INT, DOUBLE)
_HOLE: Final = re.compile(r'"\\u0000(\d+)\\u0000"')
_TEXT_HOLE: Final = re.compile("s?\0(\\d+)\0")
_WEIGHTS: Final = np.random.default_rng(0).integers(1, 2**63, KEYS_MAX, np.uint64) * np.uint64(2) + np.uint64(1)


class PlainPlan(NamedTuple):
    """What is derived from plain spans with the same keys. A hole is the position of a key, or their number for the
    duration.

    ``template`` is that of a span with a duration, ``template_without`` of one without. ``order`` are the keys in the
    order of the document. ``leaves`` are those of ``ag``: their paths, and their texts or the holes that they are.
    ``promoted`` are the holes in the columns of a root. ``copied`` are the keys of which a convention copies the text.
    """

    template: bytes
    template_without: bytes
    order: Numbers
    leaves: tuple[tuple[str, str | int], ...]
    promoted: Mapping[str, int]
    copied: tuple[int, ...]


def _planned(keys: Keys) -> PlainPlan | None:
    plan = plan_of(keys)
    if plan.has_ag_attributes or plan.shape is None or "ag" in keys:
        return None
    steps = () if plan.mapping is None else plan.mapping.steps
    if plan.mapping is not None and (
        plan.mapping.roots or any(not key or read is not as_text for key, _, _, _, read, _, _ in steps)
    ):
        return None
    marked = Span(b"", b"", None, "", 0, 0, 0, 0, None, {key: _mark(position) for position, key in enumerate(keys)})
    (normalized,) = normalize([marked])
    promoted = {name: hole for name in PROMOTED_TEXTS if (hole := _hole(getattr(normalized, name))) is not None}
    expected = NormalizedSpan(normalized.sent, normalized.ag, TRACE_TYPE, SPAN_TYPE)
    same = {name: getattr(normalized, name) for name in ("flat", "mapping_errors", *PROMOTED_TEXTS)}
    if normalized != expected._replace(**same) or normalized.mapping_errors or normalized.flat is None:
        return None
    ag = normalized.ag
    template_without = template_of(normalized.attributes)
    ag["metrics"]["duration"] = {"cumulative": _mark(len(keys))}
    template = template_of(normalized.attributes)
    leaves = SpanLeaves()
    leaves.append_ag(ag)
    # No key holds U+0000, so no other text of this document is like a mark.
    holes = list(map(int, _HOLE.findall(orjson.dumps(normalized.attributes).decode())))
    return PlainPlan(
        template=template,
        template_without=template_without,
        order=np.array(holes[: len(keys)], np.int64),  # `ag` is the last member
        leaves=tuple(
            (path, text if (hole := _hole(text)) is None else hole)
            for path, text in zip(leaves.paths, leaves.texts, strict=True)
        ),
        promoted=promoted,
        copied=tuple(keys.index(key) for key, *_ in steps),
    )


def _mark(hole: int) -> str:
    return f"\0{hole}\0"


def _hole(text: str | None) -> int | None:
    """Return the hole that a mark, or the leaf of one, stands for."""
    found = None if text is None else _TEXT_HOLE.fullmatch(text)
    return None if found is None else int(found[1])


_plans: Final = Plans(_planned, max_count=PLANS_MAX)


class KeySet(NamedTuple):
    """Plain spans with the same keys and the same kinds of values."""

    spans: Numbers
    plan: PlainPlan
    kinds: Numbers


def durations_us(arrays: SpanArrays) -> Numbers:
    """Return the durations in microseconds, as ``ag.metrics.duration`` rounds them."""
    start_ns, end_ns = (arrays.numbers(f"{name}_time_unix_nano", np.int64) for name in ("start", "end"))
    return (end_ns - start_ns + 500) // 1000


def plain_spans(arrays: SpanArrays, may_be_plain: Numbers, *, min_count: int) -> tuple[list[KeySet], Numbers]:
    """Return the plain spans by their keys, and a flag for each span: whether it is plain.

    If there are others, fewer than ``min_count`` are not.
    """
    for name in ("events", "links"):
        if len(arrays.fields[name].values):
            may_be_plain &= np.diff(offsets_of(arrays.fields[name])) == 0
    key_sets = _key_sets(arrays, may_be_plain)
    is_plain = np.zeros(arrays.spans_count, bool)
    for key_set in key_sets:
        is_plain[key_set.spans] = True
    if key_sets and not is_plain.all():
        is_plain[_influenced(arrays, is_plain)] = False
        if is_plain.sum() < min_count:
            return [], np.zeros(arrays.spans_count, bool)
    return key_sets, is_plain


def _key_sets(arrays: SpanArrays, may_be_plain: Numbers) -> list[KeySet]:
    """Return the plain spans among those that may be, by their keys. ``may_be_plain`` is a flag for each span."""
    attributes = arrays.attributes
    counts = np.diff(attributes.offsets)
    may_be_plain = may_be_plain & (counts <= KEYS_MAX) & (np.abs(durations_us(arrays)) < MICROS_END)
    is_scalar = np.isin(attributes.kinds, _SCALARS)
    if not is_scalar.all():
        others = np.searchsorted(attributes.offsets, np.flatnonzero(~is_scalar), "right") - 1
        may_be_plain[others] = False
    candidates = np.flatnonzero(may_be_plain)
    group_of, firsts = _grouped(attributes, candidates)
    by_group = np.argsort(group_of, kind="stable")
    borders = np.searchsorted(group_of[by_group], np.arange(len(firsts) + 1))
    key_sets = []
    for group, first in enumerate(firsts.tolist()):
        start, end = attributes.offsets[first], attributes.offsets[first + 1]
        spans = candidates[by_group[borders[group] : borders[group + 1]]]
        keys = tuple([attributes.names[key] for key in attributes.keys[start:end].tolist()])
        plan = _plans.of_usual(keys, count=len(spans))
        if plan is not None:
            key_set = _copyable(arrays, KeySet(spans, plan, attributes.kinds[start:end]))
            if len(key_set.spans):
                key_sets.append(key_set)
    return key_sets


def _copyable(arrays: SpanArrays, key_set: KeySet) -> KeySet:
    """Return the key set without spans of which a convention says more than a copy.

    An empty text is not copied, a number is copied as text; and an error is derived from the status of a span that
    follows a convention.
    """
    spans, plan, kinds = key_set
    if not plan.copied:
        return key_set
    copied = np.array(plan.copied)
    if (kinds[copied] != STRING).any():
        return key_set._replace(spans=spans[:0])
    offsets = offsets_of(arrays.attributes.values[STRING])
    places = arrays.attributes.offsets[spans][:, None] + copied
    is_copied = (offsets[places + 1] > offsets[places]).all(axis=1)
    return key_set._replace(spans=spans[is_copied & (arrays.status_codes[spans] != StatusCode.STATUS_CODE_ERROR)])


def _grouped(attributes: AttributeArrays, spans: Numbers) -> tuple[Numbers, Numbers]:
    """Return for each span the number of its group, and of each group the first span.

    Spans are in one group if they have the same keys in the same order with the same kinds of values. They are found by
    a hash; a span whose hash is that of another group is in none; it gets the number of groups.
    """
    starts = attributes.offsets[spans]
    counts = attributes.offsets[spans + 1] - starts
    chosen = ranges(starts, counts)
    positions = ranges(np.zeros(len(spans), np.int64), counts)
    signs = attributes.keys[chosen].astype(np.uint64) * np.uint64(8) + attributes.kinds[chosen]
    sums = np.zeros(len(chosen) + 1, np.uint64)
    np.cumsum((signs + np.uint64(1)) * _WEIGHTS[positions], out=sums[1:])
    ends = np.cumsum(counts)
    hashes = sums[ends] - sums[ends - counts]
    _, first_of, group_of = np.unique(hashes, return_index=True, return_inverse=True)
    same_count = counts == counts[first_of][group_of]
    expected = (ends - counts)[first_of][group_of]
    places = np.repeat(expected, counts) + positions
    is_other = signs != signs[np.minimum(places, max(len(signs) - 1, 0))] if len(signs) else np.zeros(0, bool)
    others = np.zeros(len(chosen) + 1, np.int64)
    np.cumsum(is_other, out=others[1:])
    is_same = same_count & (others[ends] == others[ends - counts])
    return np.where(is_same, group_of, len(first_of)), spans[first_of]


def _influenced(arrays: SpanArrays, is_plain: Numbers) -> list[int]:
    """Return the plain spans on which other spans of their record have an influence: those above a span that is not
    plain, which get the sums of its usage, and those of a trace with links, which is an annotation.
    """
    mixed = np.unique(arrays.record_of[~is_plain])
    rows = np.flatnonzero(np.isin(arrays.record_of, mixed))
    records = arrays.record_of[rows].tolist()
    traces = list(zip(records, map(bytes, arrays.ids("trace_id", 16)[rows]), strict=True))
    span_ids, parent_ids = (list(map(bytes, arrays.ids(name, 8)[rows])) for name in ("span_id", "parent_span_id"))
    places = {(trace, span_id): place for place, (trace, span_id) in enumerate(zip(traces, span_ids, strict=True))}
    is_left = (~is_plain[rows]).tolist()
    others = [place for place, left in enumerate(is_left) if left]
    for place in others:  # grows during the loop
        above = places.get((traces[place], parent_ids[place]))
        if above is not None and not is_left[above]:
            is_left[above] = True
            others.append(above)
    has_links = np.diff(offsets_of(arrays.fields["links"]))[rows] > 0
    annotated = {traces[place] for place in np.flatnonzero(has_links).tolist()}
    found: list[int] = rows[[left or trace in annotated for left, trace in zip(is_left, traces, strict=True)]].tolist()
    return found
