"""How many bytes a record takes if exactly what was read from it is written again, counted in columns (ADR 0029)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from common.arrow_views import Numbers, is_set, lengths_of, numbers_of, numbers_or_zeros, offsets_of, sums_between
from common.codec.otlp_arrays import AttributeArrays, SpanArrays
from common.codec.otlp_schema import ARRAY, BOOL, BYTES, DOUBLE, INT, KVLIST, STRING

_SIZED_KINDS: Final = (STRING, ARRAY, KVLIST, BYTES)


def canonical_sizes(requests: pa.Array, arrays: SpanArrays) -> Numbers:
    """Return how many bytes each record takes if exactly what was read from it is written again."""
    scopes, resources = arrays.scopes, arrays.resources
    spans_of = offsets_of(requests.values.field("scope_spans").values.field("spans"))
    scope_sizes = sums_between(_delimited(_span_sizes(arrays)), spans_of)
    scope_sizes += _text_sizes(scopes.messages) + _text_sizes(scopes.schema_urls)
    resource_sizes = sums_between(_delimited(scope_sizes), offsets_of(requests.values.field("scope_spans")))
    resource_sizes += _text_sizes(resources.messages) + _text_sizes(resources.schema_urls)
    return sums_between(_delimited(resource_sizes), offsets_of(requests))


def _span_sizes(arrays: SpanArrays) -> Numbers:
    fields, attributes = arrays.fields, arrays.attributes
    status = fields["status"]
    status_sizes = _text_sizes(status.field("message")) + _number_sizes(status.field("code"), np.int32)
    sizes = sums_between(_delimited(_attribute_sizes(attributes, fields["attributes"].values)), attributes.offsets)
    sizes += is_set(status) * _delimited(status_sizes)
    for name in ("trace_id", "span_id", "trace_state", "parent_span_id", "name"):
        sizes += _text_sizes(fields[name])
    for name in ("events", "links"):
        if len(fields[name].values):
            sizes += sums_between(_delimited(lengths_of(fields[name].values)), offsets_of(fields[name]))
    for name in ("start_time_unix_nano", "end_time_unix_nano"):
        sizes += 9 * is_set(fields[name])
    sizes += _number_sizes(fields["kind"], np.int32)
    for name in ("dropped_attributes_count", "dropped_events_count", "dropped_links_count"):
        sizes += _number_sizes(fields[name], np.uint32)
    sizes += 6 * is_set(fields["flags"])  # the number of this field needs a tag of two bytes
    return sizes


def _attribute_sizes(attributes: AttributeArrays, key_values: pa.StructArray) -> Numbers:
    values, kinds = attributes.values, attributes.kinds
    sizes = np.zeros(len(kinds), np.int64)
    for kind in _SIZED_KINDS:
        if values[kind].null_count < len(kinds):
            lengths = lengths_of(values[kind])
            sizes += lengths
            sizes += (kinds == kind) * (1 + _varint_sizes(lengths))
    sizes += 2 * (kinds == BOOL) + 9 * (kinds == DOUBLE)
    is_int = kinds == INT
    sizes[is_int] = 1 + _varint_sizes(numbers_of(values[INT], np.uint64)[is_int])
    sizes = is_set(key_values.field("value")) * _delimited(sizes)
    key_lengths = lengths_of(key_values.field("key"))
    sizes += (key_lengths != 0) * _delimited(key_lengths)
    return sizes


def _text_sizes(array: pa.Array) -> Numbers:
    sizes: Numbers = is_set(array) * _delimited(lengths_of(array))
    return sizes


def _number_sizes(array: pa.Array, kind: Any) -> Numbers:
    """Return the sizes of numbers; a negative one is written with 64 bits."""
    if array.null_count == len(array):
        return np.zeros(len(array), np.int64)
    wide = numbers_or_zeros(array, kind).astype(np.int64).view(np.uint64)
    sizes: Numbers = is_set(array) * (1 + _varint_sizes(wide))
    return sizes


def _delimited(lengths: Numbers) -> Numbers:
    """Return the sizes of fields with a length, for numbers below 16, whose tag is one byte."""
    return lengths + _varint_sizes(lengths) + 1


def _varint_sizes(numbers: Numbers) -> Numbers:
    sizes = np.ones(len(numbers), np.int64)
    largest = int(numbers.max(initial=0))
    for bits in range(7, 64, 7):
        if largest < 1 << bits:
            break
        sizes += numbers >= (1 << bits)
    return sizes
