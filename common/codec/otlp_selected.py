"""Spans as values: those of the spans that were read in columns (``otlp_columns``) that need more than columns.

Values are read from Arrow all at once. What is flattened to bytes there is read by ``otlp_protobuf``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from common.arrow_views import Numbers, ranges, without_nulls
from common.codec.checks import Bounds, json_bytes, json_double
from common.codec.otlp_columns import SpanArrays
from common.codec.otlp_protobuf import read_array, read_event, read_link, read_object
from common.codec.otlp_schema import ARRAY, BOOL, BYTES, DOUBLE, INT, KVLIST, STRING
from common.errors import Rejected
from common.nesting import has_long_paths
from common.span import Resource, Scope, Span

_CONTAINERS: Final = (ARRAY, KVLIST)

_REFUSED: Final = object()
"""In place of a part that cannot be read."""


class Selected(NamedTuple):
    """Spans, and the indexes of those that may have to be rejected, of which parts are missing here."""

    spans: list[Span]
    refused: set[int]


def select_spans(
    arrays: SpanArrays,
    indexes: Numbers,
    bounds: Bounds,
    *,
    resources: Mapping[int, Resource],
    scopes: Mapping[int, Scope],
) -> Selected:
    """Return the spans at these indexes, ascending; ``resources`` and ``scopes`` are those of ``arrays``, by index."""
    fields, at = arrays.fields, pa.array(indexes)
    refused: set[int] = set()
    parent_ids = fields["parent_span_id"].take(at).to_pylist()
    events = _parts(fields["events"], indexes, partial(_read, read_event, bounds), refused)
    links = _parts(fields["links"], indexes, partial(_read, read_link, bounds), refused)
    columns: dict[str, Iterable[Any]] = {
        "trace_id": fields["trace_id"].take(at).to_pylist(),
        "span_id": [span_id + span_id for span_id in fields["span_id"].take(at).to_pylist()],
        "parent_id": [parent_id + parent_id if parent_id and any(parent_id) else None for parent_id in parent_ids],
        "kind": arrays.numbers("kind", np.int32)[indexes].tolist(),
        "start_ns": arrays.numbers("start_time_unix_nano", np.int64)[indexes].tolist(),
        "end_ns": arrays.numbers("end_time_unix_nano", np.int64)[indexes].tolist(),
        "status_code": arrays.status_codes[indexes].tolist(),
        "status_message": [message or None for message in fields["status"].field("message").take(at).to_pylist()],
        "attributes": _attributes(arrays, indexes, bounds, refused),
        "events": events,
        "links": [of_span or None for of_span in links],
        "resource": [resources[resource] for resource in arrays.resource_of[indexes].tolist()],
        "scope": [scopes[scope] for scope in arrays.scope_of[indexes].tolist()],
    }
    columns |= {name: without_nulls(fields[name]).take(at).to_pylist() for name in ("name", "trace_state")}
    columns |= {name: arrays.numbers(name, np.uint32)[indexes].tolist() for name in _COUNTS}
    columns = {name: repeat(default, len(indexes)) for name, default in Span._field_defaults.items()} | columns
    spans = list(map(Span._make, zip(*[columns[name] for name in Span._fields], strict=True)))
    return Selected(spans, refused)


_COUNTS: Final = ("flags", "dropped_attributes_count", "dropped_events_count", "dropped_links_count")


def _attributes(arrays: SpanArrays, indexes: Numbers, bounds: Bounds, refused: set[int]) -> list[dict[str, Any]]:
    """Return the attributes of each span; add spans of which one cannot be read to ``refused``."""
    attributes = arrays.attributes
    starts = attributes.offsets[indexes]
    counts = attributes.offsets[indexes + 1] - starts
    chosen = ranges(starts, counts)
    names = attributes.names
    keys = [names[key] for key in attributes.keys[chosen].tolist()]
    values, bad_places = _values(arrays, chosen, bounds)
    ends = np.cumsum(counts)
    refused.update(indexes[np.searchsorted(ends, bad_places, "right")].tolist())
    borders = zip((ends - counts).tolist(), ends.tolist(), strict=True)
    return [dict(zip(keys[first:end], values[first:end], strict=True)) for first, end in borders]


def _values(arrays: SpanArrays, chosen: Numbers, bounds: Bounds) -> tuple[list[Any], list[int]]:
    """Return the values of these attributes, ready for JSON, and the places of those that cannot be read."""
    attributes = arrays.attributes
    kinds = attributes.kinds[chosen]
    values: list[Any] = attributes.values[STRING].take(pa.array(chosen)).to_pylist()
    readers: dict[int, Callable[[Any], Any]] = {
        BOOL: bool,
        INT: int,
        DOUBLE: json_double,
        BYTES: json_bytes,
        ARRAY: partial(_read, read_array, bounds),
        KVLIST: partial(_read, read_object, bounds),
    }
    bad_places = []
    for kind, read in readers.items():
        places = np.flatnonzero(kinds == kind)
        if len(places):
            found = map(read, attributes.values[kind].take(pa.array(chosen[places])).to_pylist())
            for place, value in zip(places.tolist(), found, strict=True):
                values[place] = value
            if kind in _CONTAINERS:
                keys = attributes.keys[chosen[places]].tolist()
                bad_places += [
                    place
                    for place, key in zip(places.tolist(), keys, strict=True)
                    if not _is_kept(attributes.names[key], values[place])
                ]
    return values, bad_places


def _is_kept(name: str, container: Any) -> bool:
    """Return whether an array or object with this name can be kept, if it was read."""
    return container is not _REFUSED and not has_long_paths(name, container)


def _parts(array: pa.Array, indexes: Numbers, read: Callable[[bytes], Any], refused: set[int]) -> list[tuple[Any, ...]]:
    """Return the events or links of each span; add spans of which one cannot be read to ``refused``."""
    if not len(array.values):
        return [()] * len(indexes)
    parts = [tuple(map(read, raw)) for raw in array.take(pa.array(indexes)).to_pylist()]
    refused.update(index for index, of_span in zip(indexes.tolist(), parts, strict=True) if _REFUSED in of_span)
    return parts


def _read(read: Callable[[bytes, Bounds], Any], bounds: Bounds, raw: bytes) -> Any:
    try:
        return read(raw, bounds)
    except (Rejected, DecodeError):
        return _REFUSED
