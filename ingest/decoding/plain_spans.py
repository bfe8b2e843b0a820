"""The derived columns of plain spans, column by column (ADR 0029).

A span is plain if everything that is derived from it follows from its keys, except that values are repeated: its keys
do not collide, the conventions that they belong to, if any, only copy texts, its values are scalars, and it has neither
events nor links. Then its leaves have holes for the values, and spans with the same keys are written together. They are
equal to what ``ingest/normalize.py`` and ``common/clickhouse/span_columns.py``
make of them, byte by byte: a template is made by these, from a span with marks for values.

Texts are joined from pieces: a pool of texts, and for each span the indexes of its pieces in the pool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from common.arrow_views import Numbers, TextPool, bytes_of, holders, lengths_of, offsets_of, ranges
from common.clickhouse.leaves import SpanLeaves, typed_text
from common.clickhouse.span_columns import ATTRIBUTES_BYTES, NORMALIZED
from common.clickhouse.templates import template_of
from common.codec.checks import json_double
from common.codec.otlp_arrays import AttributeArrays, SpanArrays
from common.codec.otlp_schema import BOOL, DOUBLE, INT, STRING
from common.plans import Keys, Plans
from common.span import PROMOTED_TEXTS, Metrics, NormalizedSpan, Span, StatusCode
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
_DURATION: Final = '{"cumulative":}'
_NO_DURATION: Final = "{}"
_QUOTES: Final = 2
_WEIGHTS: Final = np.random.default_rng(0).integers(1, 2**63, KEYS_MAX, np.uint64) * np.uint64(2) + np.uint64(1)


class PlainPlan(NamedTuple):
    """What is derived from plain spans with the same keys. A hole is the position of a key, or their number for the
    duration.

    ``holes`` are those of the JSON text of the attributes in its order, and ``bytes_count`` the size of the rest.
    ``template`` is that of a span with a duration, ``template_without`` of one without. ``order`` are the keys in the
    order of the document. ``leaves`` are those of ``ag``: their paths, and their texts or the holes that they are.
    ``promoted`` are the holes in the columns of a root. ``copied`` are the keys of which a convention copies the text.
    """

    holes: Numbers
    bytes_count: int
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
    expected = NormalizedSpan(normalized.attributes, TRACE_TYPE, SPAN_TYPE)
    same = {name: getattr(normalized, name) for name in ("flat", "mapping_errors", *PROMOTED_TEXTS)}
    if normalized != expected._replace(**same) or normalized.mapping_errors or normalized.flat is None:
        return None
    ag = normalized.attributes["ag"]
    template_without = template_of(normalized.attributes)
    ag["metrics"]["duration"] = {"cumulative": _mark(len(keys))}
    template = template_of(normalized.attributes)
    leaves = SpanLeaves()
    leaves.append_ag(ag)
    ag["metrics"]["duration"] = _mark(len(keys))
    # No key holds U+0000, so no other text of this document is like a mark.
    parts = _HOLE.split(orjson.dumps(normalized.attributes).decode())
    holes = list(map(int, parts[1::2]))
    return PlainPlan(
        holes=np.array(holes, np.int64),
        bytes_count=sum(len(fragment.encode()) for fragment in parts[0::2]),
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


def plain_key_sets(arrays: SpanArrays, may_be_plain: Numbers) -> list[KeySet]:
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


def plain_columns(arrays: SpanArrays, key_sets: Sequence[KeySet]) -> dict[str, pa.Array]:
    """Return the derived columns (``NORMALIZED``) of the spans of these sets, at least one, in ascending order."""
    spans = np.sort(np.concatenate([key_set.spans for key_set in key_sets]))
    texts = _Texts(arrays, spans, key_sets)
    count = len(spans)
    nothing = pa.repeat(pa.scalar(b""), count)
    columns: dict[str, pa.Array] = {
        "trace_type": pa.repeat(pa.scalar(TRACE_TYPE), count),
        "span_type": pa.repeat(pa.scalar(SPAN_TYPE), count),
        "usage_is_own": pa.array(np.zeros(count, np.uint8)),
        "references": nothing,
        "hashes": nothing,
        "attributes": nothing,
        "attributes_template": texts.templates(),
        ATTRIBUTES_BYTES: texts.attributes_bytes(),
        "leaves": texts.leaves(),
    }
    columns |= {name: texts.promoted(name) for name in PROMOTED_TEXTS}
    columns |= dict.fromkeys(Metrics._fields, pa.array(np.zeros(count)))
    return {name: columns[name] for name in NORMALIZED}


class _Texts:
    """JSON texts and leaves of chosen spans, from their values."""

    def __init__(self, arrays: SpanArrays, spans: Numbers, key_sets: Sequence[KeySet]) -> None:
        attributes = arrays.attributes
        starts = attributes.offsets[spans]
        self._counts = attributes.offsets[spans + 1] - starts
        self._firsts = np.cumsum(self._counts) - self._counts
        self._key_sets = [(np.searchsorted(spans, key_set.spans), *key_set[1:]) for key_set in key_sets]
        self._is_root: Numbers = np.array(~arrays.ids("parent_span_id", 8)[spans].any(axis=1))
        self._names = attributes.names
        chosen = ranges(starts, self._counts)
        is_all = len(chosen) == len(attributes.keys)
        self._keys = attributes.keys if is_all else attributes.keys[chosen]
        self._kinds = attributes.kinds if is_all else attributes.kinds[chosen]
        texts = attributes.values[STRING]
        self._texts = texts if is_all else texts.take(pa.array(chosen))
        ints, doubles = chosen[self._kinds == INT], chosen[self._kinds == DOUBLE]
        self._ints = pc.cast(attributes.values[INT].take(pa.array(ints)), pa.string())
        self._doubles = [
            json_double(number) for number in attributes.values[DOUBLE].take(pa.array(doubles)).to_pylist()
        ]
        self._booleans = _flags(attributes.values[BOOL].take(pa.array(chosen[self._kinds == BOOL])))
        durations = durations_us(arrays)[spans]
        self._has_duration = durations > 0
        self._durations = _milliseconds(durations[self._has_duration])

    def templates(self) -> pa.Array:
        """Return the template of the attributes of each span."""
        index_of: dict[bytes, int] = {}
        indexes = np.zeros(len(self._counts), np.int32)
        for at, plan, _ in self._key_sets:
            with_duration, without = (
                index_of.setdefault(template, len(index_of)) for template in (plan.template, plan.template_without)
            )
            indexes[at] = np.where(self._has_duration[at], with_duration, without)
        return pa.DictionaryArray.from_arrays(pa.array(indexes), pa.array(list(index_of), pa.binary()))

    def attributes_bytes(self) -> pa.Array:
        """Return the size of the JSON text of the attributes of each span."""
        value_bytes = lengths_of(self._texts) + _QUOTES
        escaped_at, escaped = _escaped(self._texts)
        value_bytes[escaped_at] = lengths_of(escaped) + _QUOTES
        value_bytes[self._kinds == INT] = lengths_of(self._ints)
        value_bytes[self._kinds == DOUBLE] = [len(orjson.dumps(number)) for number in self._doubles]
        value_bytes[self._kinds == BOOL] = np.where(self._booleans, len("true"), len("false"))
        duration_bytes = np.full(len(self._counts), len(_NO_DURATION))
        duration_bytes[self._has_duration] = lengths_of(self._durations) + len(_DURATION)
        sizes = np.zeros(len(self._counts), np.int64)
        for at, plan, kinds in self._key_sets:
            filled = self._filled(at, plan.holes, len(kinds), value_bytes, duration_bytes)
            sizes[at] = plan.bytes_count + filled.sum(axis=1)
        return pa.array(sizes)

    def leaves(self) -> pa.Array:
        """Return the leaves of each span in the order of the document: those of its attributes, then those of its
        ``ag``.
        """
        pool, names = TextPool(), TextPool()
        text_at = np.arange(len(self._kinds))
        pool.add(pc.binary_join_element_wise("s", self._texts, ""))
        self._place(text_at, INT, pool.add(pc.binary_join_element_wise("n", self._ints, "")))
        self._place(text_at, DOUBLE, pool.add(_texts_of(map(typed_text, self._doubles))))
        text_at[self._kinds == BOOL] = pool.add(pa.array(["b0", "b1"])) + self._booleans
        names.add(pa.array(self._names, pa.string()))
        durations = pc.binary_join_element_wise("n", self._durations, "")
        duration_at = np.full(len(self._counts), -1)
        duration_at[self._has_duration] = pool.add(durations) + np.arange(len(durations))
        widths = self._counts.astype(np.int64)
        for at, plan, _ in self._key_sets:
            widths[at] += len(plan.leaves)
        ends = np.cumsum(widths)
        texts, paths = np.empty(ends[-1], np.int64), np.empty(ends[-1], np.int64)
        of_attributes = ranges(ends - widths, self._counts)
        in_order = self._in_order()
        texts[of_attributes], paths[of_attributes] = text_at[in_order], self._keys[in_order]
        for at, plan, kinds in self._key_sets:
            places = (ends[at] - len(plan.leaves))[:, None] + np.arange(len(plan.leaves))
            constants = [text if isinstance(text, str) else "" for _, text in plan.leaves]
            holes = np.array([hole if isinstance(hole, int) else 0 for _, hole in plan.leaves], np.int64)
            is_hole = [isinstance(hole, int) for _, hole in plan.leaves]
            filled = self._filled(at, holes, len(kinds), text_at, duration_at)
            texts[places] = np.where(is_hole, filled, pool.add(pa.array(constants)) + np.arange(len(constants)))
            paths[places] = names.add(pa.array([path for path, _ in plan.leaves])) + np.arange(len(constants))
        is_there = texts >= 0  # a duration may be missing
        missing = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(~is_there, out=missing[1:])
        offsets = _offsets(ends - missing[ends])
        return pa.MapArray.from_arrays(offsets, names.at(paths[is_there]), pool.at(texts[is_there]))

    def promoted(self, name: str) -> pa.Array:
        """Return a column that a root has from its attributes."""
        places = np.full(len(self._counts), -1)
        for at, plan, _ in self._key_sets:
            if name in plan.promoted:
                places[at] = np.where(self._is_root[at], self._firsts[at] + plan.promoted[name], -1)
        is_absent = np.array(places < 0)
        if is_absent.all():
            return pa.nulls(len(places), pa.string())
        return self._texts.take(pa.array(places, mask=is_absent))

    def _in_order(self) -> Numbers:
        """Return the attributes of all spans, those of each in the order of its document."""
        in_order = np.arange(len(self._kinds))
        for at, plan, kinds in self._key_sets:
            if (plan.order[1:] < plan.order[:-1]).any():
                firsts = self._firsts[at][:, None]
                in_order[firsts + np.arange(len(kinds))] = firsts + plan.order
        return in_order

    def _filled(self, at: Numbers, holes: Numbers, keys_count: int, value_at: Numbers, duration_at: Numbers) -> Numbers:
        """Return what ``value_at`` and ``duration_at`` say of the holes of these spans, a row for each span."""
        is_duration = holes == keys_count
        filled = np.empty((len(at), len(holes)), np.int64)
        filled[:, ~is_duration] = value_at[self._firsts[at][:, None] + holes[~is_duration]]
        filled[:, is_duration] = duration_at[at][:, None]
        return filled

    def _place(self, index_of: Numbers, kind: int, first: int) -> None:
        """Let the attributes of a kind have consecutive texts from ``first`` on."""
        places = np.flatnonzero(self._kinds == kind)
        index_of[places] = first + np.arange(len(places))


def _milliseconds(micros: Numbers) -> pa.Array:
    """Return positive durations in milliseconds, as JSON shows them."""
    whole = pc.cast(pa.array(micros // 1000), pa.string())
    return pc.binary_join_element_wise(whole, _fractions().take(pa.array(micros % 1000)), "")


@cache
def _fractions() -> pa.Array:
    """Return what follows the digits before the point, by the thousandths. Not made at import: Arrow would load pandas
    for it, before the decoder can prevent that (``child.py``).
    """
    return pa.array(["", *(f".{thousandths:03d}".rstrip("0") for thousandths in range(1, 1000))])


def _escaped(texts: pa.Array) -> tuple[Numbers, pa.Array]:
    """Return the indexes of the texts that JSON escapes, and their escaped content."""
    content = bytes_of(texts)
    found = holders(texts, (content < 0x20) | (content == ord('"')) | (content == ord("\\")))
    if not len(found):
        return found, pa.array([], pa.string())
    # A quote inside a text follows a backslash, so this separator is only between texts.
    escaped = orjson.dumps(texts.take(pa.array(found)).to_pylist())[2:-2].split(b'","')
    return found, pa.array(escaped, pa.binary()).cast(pa.string())


def _flags(array: pa.Array) -> Numbers:
    flags: Numbers = np.array(array.to_pylist(), np.int64)
    return flags


def _texts_of(texts: Any) -> pa.Array:
    return pa.array(list(texts), pa.string())


def _offsets(ends: Numbers) -> pa.Array:
    return pa.array(np.concatenate([[0], ends]), pa.int32())
