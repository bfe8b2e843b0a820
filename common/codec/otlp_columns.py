"""``otlp_proto`` in columns: many records are parsed together, straight into Arrow (ADR 0029).

The parser is ``ptars``. Its schema is OTLP's with the rare messages flattened to ``bytes``: resources, scopes, events,
links, and the arrays and objects among values. The wire is the same, and ``otlp_protobuf`` reads these parts.

``ptars`` is young, so it is not trusted: a record counts as read only if everything that was read from it, written
again in the canonical way, takes exactly as many bytes as the record (``_canonical_sizes``). Then nothing is unknown,
given twice or spelled in an unusual way. All other records are left to ``otlp_protobuf``: those that the parser
refuses, those without a span, and those in which any span may have to be rejected.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from common.arrow_views import (
    Numbers,
    bytes_of,
    holders,
    is_set,
    lengths_of,
    numbers_of,
    numbers_or_zeros,
    offsets_of,
    sums_between,
)
from common.codec.checks import PART_BYTES_MIN, SMALL_PARTS_MAX, Bounds
from common.codec.otlp_schema import ARRAY, BOOL, BYTES, DOUBLE, INT, KVLIST, PACKAGE, STRING, VALUE_FIELDS, schema_file
from common.errors import Rejected

try:
    import ptars
except ImportError:  # no wheel for this platform: every record is read by `otlp_protobuf`
    ptars = None  # type: ignore[assignment]

HALVINGS_MAX: Final = 8
"""How often records that the parser refuses together are halved; what is refused then is read by ``otlp_protobuf``."""


_T = TypeVar("_T")

_SIZED_KINDS: Final = (STRING, ARRAY, KVLIST, BYTES)


@dataclass(frozen=True)
class AttributeArrays:
    """The attributes of all spans, one after the other; those of a span lie between two of ``offsets``.

    ``keys`` are indexes into ``names``, the distinct keys. ``kinds`` says which field of ``values`` is set.
    """

    offsets: Numbers
    keys: Numbers
    names: list[str]
    kinds: Numbers
    values: dict[int, pa.Array]


@dataclass(frozen=True)
class SpanArrays:
    """The spans of records that were read, in wire order.

    ``positions`` are those of the records among the values that were given; ``span_counts`` is parallel.
    ``resource_of`` and ``scope_of`` are, for each span, indexes into ``resources`` and ``scopes``: the bytes of the
    message, and its schema URL.
    """

    positions: Sequence[int]
    span_counts: Numbers
    fields: dict[str, pa.Array]
    attributes: AttributeArrays
    resource_of: Numbers
    scope_of: Numbers
    resources: Wrappers
    scopes: Wrappers

    @property
    def spans_count(self) -> int:
        """How many spans there are."""
        return len(self.scope_of)

    @cached_property
    def record_of(self) -> Numbers:
        """For each span the index of its record in ``positions``."""
        return np.repeat(np.arange(len(self.positions)), self.span_counts)

    def numbers(self, name: str, kind: Any) -> Numbers:
        """Return a field of all spans as numbers, 0 where it is absent."""
        return numbers_or_zeros(self.fields[name], kind)

    @property
    def status_codes(self) -> Numbers:
        """The code of the status of each span."""
        return numbers_or_zeros(self.fields["status"].field("code"), np.int32)

    def ids(self, name: str, size: int) -> Numbers:
        """Return a field of ids as a matrix of bytes; an id that is absent is all zeros."""
        array = self.fields[name]
        offsets = offsets_of(array)
        raw = np.frombuffer(array.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
        if len(raw) == size * len(array):
            return raw.reshape(-1, size)
        matrix = np.zeros((len(array), size), np.uint8)
        matrix[offsets[1:] > offsets[:-1]] = raw.reshape(-1, size)
        return matrix


@dataclass(frozen=True)
class Wrappers:
    """Resources or scopes: the bytes of each, and their schema URLs."""

    messages: pa.Array
    schema_urls: pa.Array

    def __getitem__(self, index: int) -> tuple[bytes, str]:
        return self.messages[index].as_py() or b"", self.schema_urls[index].as_py() or ""


def is_available() -> bool:
    """Return whether records can be read in columns on this platform."""
    return ptars is not None


def read_plain(values: Sequence[bytes], bounds: Bounds) -> SpanArrays | None:
    """Return the spans of the records that can be read without any doubt; ``None`` if there are none.

    In such a record every span has valid ids, times and enums and no text with U+0000, and no two spans have the same
    ids. What is inside of the flattened messages is not checked. Never raises for the content of records.
    """
    positions = list(range(len(values)))
    batch = _parsed(values)
    if batch is None:
        positions = _accepted(values)
        batch = _parsed([values[at] for at in positions]) if positions else None
    for _ in range(3):  # ids can only be compared once all have the same length
        if batch is None:
            return None
        arrays, sizes = _arrays(batch, positions)
        is_plain = (sizes == [len(values[at]) for at in positions]) & _plain_records(arrays, bounds)
        if is_plain.all():
            return arrays
        positions = [at for at, plain in zip(positions, is_plain.tolist(), strict=True) if plain]
        batch = _parsed([values[at] for at in positions]) if positions else None
    return None


def _accepted(values: Sequence[bytes]) -> list[int]:
    """Return the positions of values that the parser accepts, found by halving. It refuses all of them together."""
    accepted: list[int] = []
    refused = deque([range(len(values))])
    for _ in range(HALVINGS_MAX):
        if not refused:
            break
        part = refused.popleft()
        half = len(part) // 2
        for piece in (part[:half], part[half:]):
            if piece and _parsed(values[piece.start : piece.stop]) is not None:
                accepted.extend(piece)
            elif len(piece) > 1:
                refused.append(piece)
    return sorted(accepted)


def _parsed(values: Sequence[bytes]) -> pa.RecordBatch | None:
    """Return the records as rows of one column; ``None`` if the parser refuses one of them."""
    try:
        return _handler().list_to_record_batch(list(values))
    except ValueError:
        return None
    except BaseException as exc:
        if type(exc).__module__ != "pyo3_runtime":  # where Rust's panics come from; they are no `Exception`
            raise
        return None


@cache
def _handler() -> Any:
    pool = DescriptorPool()
    pool.Add(schema_file())
    message = pool.FindMessageTypeByName(f"{PACKAGE}.Request")
    return ptars.HandlerPool([message.file]).get_for_message(message)


# From the nested rows of the parser to flat arrays.


def _arrays(batch: pa.RecordBatch, positions: Sequence[int]) -> tuple[SpanArrays, Numbers]:
    """Return the arrays of a batch, and the canonical size of each of its records."""
    requests = batch.column(0)
    resources, scopes = requests.values, requests.values.field("scope_spans").values
    spans = scopes.field("spans").values
    fields = {field.name: spans.field(field.name) for field in spans.type}
    attributes = fields["attributes"].values
    keys = attributes.field("key").dictionary_encode()
    values = attributes.field("value")
    arrays_of = (requests, resources.field("scope_spans"), scopes.field("spans"))
    of_requests, of_resources, of_scopes = map(offsets_of, arrays_of)
    scope_of = np.repeat(np.arange(len(scopes)), np.diff(of_scopes))
    arrays = SpanArrays(
        positions=positions,
        span_counts=np.diff(of_scopes[of_resources[of_requests]]),
        fields=fields,
        attributes=AttributeArrays(
            offsets=offsets_of(fields["attributes"]),
            keys=numbers_of(keys.indices, np.int32),
            names=keys.dictionary.to_pylist(),
            kinds=_kinds(values),
            values={kind: values.field(name) for kind, name in VALUE_FIELDS.items()},
        ),
        resource_of=np.repeat(np.arange(len(resources)), np.diff(of_resources))[scope_of],
        scope_of=scope_of,
        resources=Wrappers(resources.field("resource"), resources.field("schema_url")),
        scopes=Wrappers(scopes.field("scope"), scopes.field("schema_url")),
    )
    return arrays, _canonical_sizes(requests, arrays)


def _kinds(values: pa.StructArray) -> Numbers:
    """Return which field of each value is set. If several were sent, the canonical size is too small: it counts one."""
    kinds = np.zeros(len(values), np.uint8)
    for kind, name in VALUE_FIELDS.items():
        field = values.field(name)
        if field.null_count < len(field):
            kinds[is_set(field)] = kind
    return kinds


# What is checked of every record.


def _plain_records(arrays: SpanArrays, bounds: Bounds) -> Numbers:
    """Return which records have spans, and only those that are kept."""
    fields = arrays.fields
    trace_id_sizes, span_id_sizes = lengths_of(fields["trace_id"]), lengths_of(fields["span_id"])
    parent_sizes = lengths_of(fields["parent_span_id"])
    start_ns = arrays.numbers("start_time_unix_nano", np.uint64)
    end_ns = arrays.numbers("end_time_unix_nano", np.uint64)
    kinds = arrays.numbers("kind", np.int32)
    codes = arrays.status_codes
    earliest_ns, latest_ns = np.uint64(bounds.earliest_ns), np.uint64(bounds.latest_ns)
    is_bad = (trace_id_sizes != 16) | (span_id_sizes != 8) | ((parent_sizes != 0) & (parent_sizes != 8))
    is_bad |= (kinds < 0) | (kinds > 5) | (codes < 0) | (codes > 2)
    for times in (start_ns, end_ns):
        is_bad |= (times < earliest_ns) | (times > latest_ns)
    for name in ("trace_id", "span_id"):  # an id of zeros
        is_bad |= sums_between(bytes_of(fields[name]) != 0, offsets_of(fields[name])) == 0
    for parts in (fields["events"], fields["links"]):
        counts = lengths_of(parts)
        sizes = sums_between(lengths_of(parts.values), offsets_of(parts))
        is_bad |= (counts > SMALL_PARTS_MAX) & (sizes < counts * PART_BYTES_MIN)
    for texts in (fields["name"], fields["trace_state"], fields["status"].field("message")):
        is_bad[_holders_of_null(texts)] = True
    is_bad[_spans_of(arrays.attributes, _bad_attributes(arrays.attributes))] = True
    if not is_bad.any():
        is_bad = _is_repeated(arrays)
    is_plain = arrays.span_counts > 0
    is_plain[arrays.record_of[is_bad]] = False
    return is_plain


def _bad_attributes(attributes: AttributeArrays) -> Numbers:
    """Return the indexes of attributes whose key or text holds U+0000."""
    bad_names = [index for index, name in enumerate(attributes.names) if "\0" in name]
    with_key = np.flatnonzero(np.isin(attributes.keys, bad_names)) if bad_names else np.zeros(0, np.int64)
    return np.concatenate([with_key, _holders_of_null(attributes.values[STRING])])


def _spans_of(attributes: AttributeArrays, indexes: Numbers) -> Numbers:
    return np.searchsorted(attributes.offsets, indexes, "right") - 1


def _holders_of_null(texts: pa.Array) -> Numbers:
    """Return the indexes of texts that hold U+0000."""
    return holders(texts, bytes_of(texts) == 0)


def _is_repeated(arrays: SpanArrays) -> Numbers:
    """Return which spans have the ids of another one of their record. It compares hashes, because sorting pairs of ids
    is slow: it may report spans that are not repeated, and never misses one.
    """
    trace_ids = arrays.ids("trace_id", 16).view(np.uint64)
    span_ids = arrays.ids("span_id", 8).view(np.uint64)
    hashes = trace_ids[:, 0] * _FACTORS[0] + trace_ids[:, 1] * _FACTORS[1] + span_ids[:, 0] * _FACTORS[2]
    hashes += arrays.record_of.astype(np.uint64) * _FACTORS[3]
    order = np.argsort(hashes)
    is_repeated = np.zeros(len(hashes), bool)
    is_repeated[order[1:]] = hashes[order[1:]] == hashes[order[:-1]]
    return is_repeated


_FACTORS: Final = np.random.default_rng(0).integers(1, 2**63, 4, np.uint64) * np.uint64(2) + np.uint64(1)


def read_wrappers(
    read: Callable[[bytes, str, Bounds], _T], wrappers: Wrappers, indexes: Sequence[int], bounds: Bounds
) -> dict[int, _T | None]:
    """Return the resources or scopes at these indexes, equal ones as one object; ``None`` for one that is rejected."""
    known: dict[tuple[bytes, str], _T | None] = {}
    found: dict[int, _T | None] = {}
    for index in indexes:
        raw, schema_url = wrappers[index]
        if (raw, schema_url) not in known:
            try:
                known[raw, schema_url] = read(raw, schema_url, bounds)
            except (Rejected, DecodeError):
                known[raw, schema_url] = None
        found[index] = known[raw, schema_url]
    return found


# How many bytes a record takes if exactly what was read from it is written again.


def _canonical_sizes(requests: pa.Array, arrays: SpanArrays) -> Numbers:
    """Return how many bytes each record takes if exactly what was read from it is written again."""
    scopes, resources = arrays.scopes, arrays.resources
    spans_of = offsets_of(requests.values.field("scope_spans").values.field("spans"))
    scope_sizes = sums_between(_delimited(_sizes_of_spans(arrays)), spans_of)
    scope_sizes += _text_sizes(scopes.messages) + _text_sizes(scopes.schema_urls)
    resource_sizes = sums_between(_delimited(scope_sizes), offsets_of(requests.values.field("scope_spans")))
    resource_sizes += _text_sizes(resources.messages) + _text_sizes(resources.schema_urls)
    return sums_between(_delimited(resource_sizes), offsets_of(requests))


def _sizes_of_spans(arrays: SpanArrays) -> Numbers:
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
