"""The rows of plain spans (``plain_spans.py``), column by column, from what was read in columns (ADR 0029).

Texts are joined from pieces: a pool of texts, and for each span the indexes of its pieces in the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.arrow_views import Numbers, TextPool, empty_maps, ranges, without_nulls
from common.clickhouse.leaves import typed_text
from common.clickhouse.member_json import source_json
from common.clickhouse.score_maps import SCORE_MAPS
from common.clickhouse.span_columns import NORMALIZED, table_of, time_columns
from common.codec.checks import json_double
from common.codec.otlp_columns import SpanArrays
from common.codec.otlp_schema import BOOL, DOUBLE, INT, STRING
from common.span import PROMOTED_TEXTS, Metrics, Resource, Scope
from common.span_version import version_of
from ingest.decoding.plain_spans import SPAN_TYPE, TRACE_TYPE, KeySet, durations_us


class RecordColumns(NamedTuple):
    """What the rows of one record have in common."""

    project_id: bytes
    partition_id: str
    record_offset: int
    record_ms: int


def plain_rows(
    arrays: SpanArrays,
    key_sets: Sequence[KeySet],
    records: Sequence[RecordColumns],
    *,
    resources: Mapping[int, Resource | None],
    scopes: Mapping[int, Scope | None],
) -> pa.Table:
    """Return the rows of all spans in these sets, in the order of the spans. There must be at least one.

    The other arguments are as in ``_sent_columns``.
    """
    spans = np.sort(np.concatenate([key_set.spans for key_set in key_sets]))
    sent = _sent_columns(arrays, records, resources=resources, scopes=scopes)
    if len(spans) < arrays.spans_count:
        chosen = pa.array(spans)
        sent = {name: column.take(chosen) for name, column in sent.items()}
    return table_of(sent | _derived_columns(arrays, spans, key_sets))


def _derived_columns(arrays: SpanArrays, spans: Numbers, key_sets: Sequence[KeySet]) -> dict[str, pa.Array]:
    """Return the derived columns (``NORMALIZED``) of these spans, which are all those of the sets."""
    texts = _Texts(arrays, spans, key_sets)
    count = len(spans)
    nothing = pa.repeat(pa.scalar(b""), count)
    columns: dict[str, pa.Array] = {
        "trace_type": pa.repeat(pa.scalar(TRACE_TYPE), count),
        "span_type": pa.repeat(pa.scalar(SPAN_TYPE), count),
        "usage_is_own": pa.array(np.zeros(count, np.uint8)),
        "cost_is_computed": pa.array(np.zeros(count, np.uint8)),
        "references": nothing,
        "hashes": nothing,
        "scores": nothing,
        "dropped_scores_count": pa.array(np.zeros(count, np.uint32)),
        **dict.fromkeys(SCORE_MAPS, empty_maps(count)),
        "attributes_template": texts.templates(),
        "attributes_by_key": nothing,
        "leaves": texts.leaves(),
    }
    columns |= {name: texts.promoted(name) for name in PROMOTED_TEXTS}
    columns |= dict.fromkeys(Metrics._fields, pa.array(np.zeros(count)))
    return {name: columns[name] for name in NORMALIZED}


def _sent_columns(
    arrays: SpanArrays,
    records: Sequence[RecordColumns],
    *,
    resources: Mapping[int, Resource | None],
    scopes: Mapping[int, Scope | None],
) -> dict[str, pa.Array]:
    """Return the columns of all spans. ``records`` are those of ``arrays``, ``resources`` and ``scopes`` are by index.
    Those of spans with events or links, or whose resource or scope is missing, mean nothing.
    """
    fields, counts = arrays.fields, arrays.span_counts
    span_ids, parent_ids = arrays.ids("span_id", 8), arrays.ids("parent_span_id", 8)
    start_ns, end_ns = (arrays.numbers(f"{name}_time_unix_nano", np.int64) for name in ("start", "end"))
    messages = without_nulls(fields["status"].field("message"))
    starts = np.zeros(len(counts), np.int64)
    return {
        "project_id": _ids(_spread(b"".join(record.project_id for record in records), counts)),
        "span_id": _ids(np.concatenate([span_ids, span_ids], axis=1)),
        "trace_id": _ids(arrays.ids("trace_id", 16)),
        "parent_id": _ids(np.concatenate([parent_ids, parent_ids], axis=1)),
        "partition_id": _dictionary([record.partition_id.encode() for record in records], counts),
        "version": _repeated([version_of(record.record_offset) for record in records], np.uint64, counts),
        "record_ms": _repeated([record.record_ms for record in records], np.int64, counts),
        "span_index": pa.array(ranges(starts, counts).astype(np.uint32)),
        "name": without_nulls(fields["name"]),
        "kind": pa.array(arrays.numbers("kind", np.int32).astype(np.uint8)),
        "status_code": pa.array(arrays.status_codes.astype(np.uint8)),
        "status_message": pc.if_else(pc.equal(messages, ""), pa.scalar(None, pa.string()), messages),
        "trace_state": without_nulls(fields["trace_state"]),
        **{
            name: pa.array(arrays.numbers(name, np.uint32))
            for name in ("flags", "dropped_attributes_count", "dropped_events_count", "dropped_links_count")
        },
        **time_columns(start_ns, end_ns),
        "events": pa.repeat(pa.scalar(b""), arrays.spans_count),
        "links": pa.repeat(pa.scalar(b""), arrays.spans_count),
        "resource": _sources(arrays.resource_of, resources),
        "scope": _sources(arrays.scope_of, scopes),
        "repaired": _dictionary([b""], np.array([arrays.spans_count])),
    }


def _ids(matrix: Numbers) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(16), len(matrix), [None, pa.py_buffer(np.ascontiguousarray(matrix))])


def _spread(ids: bytes, counts: Numbers) -> Numbers:
    return np.repeat(np.frombuffer(ids, np.uint8).reshape(-1, 16), counts, axis=0)


def _repeated(values: Sequence[int], kind: Any, counts: Numbers) -> pa.Array:
    return pa.array(np.repeat(np.array(values, kind), counts))


def _dictionary(texts: Sequence[bytes], counts: Numbers) -> pa.Array:
    distinct = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    indexes = np.repeat(np.array([distinct[text] for text in texts], np.int32), counts)
    return pa.DictionaryArray.from_arrays(pa.array(indexes), pa.array(list(distinct), pa.binary()))


def _sources(index_of: Numbers, sources: Mapping[int, Resource | Scope | None]) -> pa.Array:
    """Return the JSON texts of resources or scopes, each rendered once."""
    texts = {index: b"" if source is None else source_json(source) for index, source in sources.items()}
    distinct = {text: number for number, text in enumerate(dict.fromkeys(texts.values()))}
    numbers = np.zeros(int(index_of.max()) + 1, np.int32)
    for index, text in texts.items():
        numbers[index] = distinct[text]
    return pa.DictionaryArray.from_arrays(pa.array(numbers[index_of]), pa.array(list(distinct), pa.binary()))


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


def _flags(array: pa.Array) -> Numbers:
    flags: Numbers = np.array(array.to_pylist(), np.int64)
    return flags


def _texts_of(texts: Any) -> pa.Array:
    return pa.array(list(texts), pa.string())


def _offsets(ends: Numbers) -> pa.Array:
    return pa.array(np.concatenate([[0], ends]), pa.int32())
