"""The checks that every codec applies to a span (contract §4), and the conversion of values to JSON-ready ones
(``common/span.py``).

The functions raise, or return, ``Rejected`` with the code and one sentence: what is wrong, where, and what is allowed.
"""

from __future__ import annotations

import base64
import math
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from common.errors import Rejected, RejectionCode
from common.json_values import INT64_MAX, INTEGERS_END, INTEGERS_FIRST
from common.limits import MIB, SpanLimits
from common.nesting import GROWTH_MAX, has_long_paths
from common.span import Attributes

LATEST_NS: Final = INT64_MAX
"""The last time that columns can hold, in 2262; no setting exceeds it."""

SMALL_PARTS_MAX: Final = 16
PART_BYTES_MIN: Final = 8
"""The smallest event or link that a producer writes has a time or a trace id, which take more."""

KEY_SHOWN_MAX: Final = 80

_UNITS: Final = {"seconds": 1_000_000_000, "milliseconds": 1_000_000, "microseconds": 1_000}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Bounds(NamedTuple):
    """The limits of one record, with absolute times."""

    earliest_ns: int
    latest_ns: int
    nesting_depth_max: int


def bounds_of(limits: SpanLimits, *, now_ns: int) -> Bounds:
    """Return the bounds of a record that is read at ``now_ns``."""
    return Bounds(limits.past_ns_min, min(now_ns + limits.ahead_ns_max, LATEST_NS), limits.nesting_depth_max)


def check_record_size(value: bytes, limits: SpanLimits) -> None:
    """Raise ``Rejected`` if the record is larger than its limit."""
    if len(value) > limits.record_bytes_max:
        raise Rejected(
            RejectionCode.RECORD_TOO_LARGE,
            f"The record has {len(value)} bytes; at most {_size(limits.record_bytes_max)} are allowed.",
        )


def check_span_size(size: int, limits: SpanLimits, kind: str = "span") -> None:
    """Raise ``Rejected`` if a span, or a log record, has more bytes on the wire than its limit."""
    if size > limits.span_bytes_max:
        raise Rejected(
            RejectionCode.SPAN_TOO_LARGE,
            f"The {kind} has {size} bytes; at most {_size(limits.span_bytes_max)} are allowed.",
        )


def check_parts(name: str, count: int, size: int) -> None:
    """Raise ``Rejected`` if a span has many events, or links, that are nearly empty: a response takes 80 bytes for one
    that has two on the wire. ``size`` is that of all of them.
    """
    if count > SMALL_PARTS_MAX and size < count * PART_BYTES_MIN:
        raise Rejected(
            RejectionCode.SPAN_TOO_LARGE,
            f"The span has {count} {name} of {size / count:.1f} bytes on average; more than {SMALL_PARTS_MAX} {name}"
            f" must have at least {PART_BYTES_MIN} bytes on average.",
        )


def check_paths(where: str, attributes: Attributes) -> None:
    """Raise ``Rejected`` if an array or object is so far below long keys that its paths take many times its size."""
    for key, value in attributes.items():
        if (type(value) is list or type(value) is dict) and has_long_paths(key, value):
            raise Rejected(
                RejectionCode.SPAN_TOO_LARGE,
                f"Paths below {at_key(where, key)} are too long. Each path repeats the keys above it; paths may have"
                f" {GROWTH_MAX} characters for each byte of keys and values.",
            )


def check_times(start_ns: int, end_ns: int, bounds: Bounds) -> None:
    """Raise ``Rejected`` if the start or the end is absurd. An end before the start is kept, because clocks are set
    back.
    """
    earliest_ns, latest_ns, _ = bounds
    if earliest_ns <= start_ns <= latest_ns and earliest_ns <= end_ns <= latest_ns:
        return
    raise _absurd(*(("end ", end_ns) if earliest_ns <= start_ns <= latest_ns else ("start ", start_ns)), bounds)


def check_time(time_ns: int, bounds: Bounds) -> None:
    """Raise ``Rejected`` if the time of a log record is absurd."""
    if not bounds.earliest_ns <= time_ns <= bounds.latest_ns:
        raise _absurd("", time_ns, bounds)


def invalid_type(where: str, found: Any, allowed: str) -> Rejected:
    """Return the rejection of a member of the wrong kind."""
    return Rejected(RejectionCode.INVALID_TYPE, f"{where} is {_kind(found)}; it must be {allowed}.")


def unknown_enum(where: str, found: object, allowed: str) -> Rejected:
    """Return the rejection of an enum value that does not exist."""
    return Rejected(RejectionCode.UNKNOWN_ENUM, f"{where} is {shown(found)}; it must be {allowed}.")


def at_key(where: str, key: str) -> str:
    """Return how a message names a member. Long keys are cut: the name is made for values without a fault, too."""
    return f"{where}.{key}" if len(key) <= KEY_SHOWN_MAX else f"{where}.{key[:KEY_SHOWN_MAX]}…"


def shown(found: object) -> str:
    """Return a value as an error message quotes it, cut if it is long."""
    try:
        text = f"“{found}”" if isinstance(found, str) else repr(found)
    except RecursionError:
        text = _kind(found)
    return text if len(text) <= 80 else f"{text[:77]}…"


def json_double(value: float) -> int | float | str:
    """Return a double as responses contain it: a text if it is not finite, an integer if it has no fraction and fits 64
    bits.
    """
    if value.is_integer():  # same as `json_number`, without the call: codecs check every double
        return int(value) if INTEGERS_FIRST <= value < INTEGERS_END else value
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def json_bytes(value: bytes) -> str:
    """Return bytes as responses contain them: base64 with padding, in the standard alphabet."""
    return base64.b64encode(value).decode("ascii")


def _size(size: int) -> str:
    return f"{size // MIB} MiB" if size % MIB == 0 else f"{size} bytes"


def _kind(found: object) -> str:
    if found is None:
        return "null"
    if isinstance(found, bool):
        return "a boolean"
    if isinstance(found, int | float):
        return f"the number {shown(found)}"
    if isinstance(found, str):
        return f"the text {shown(found)}"
    return "an array" if isinstance(found, list) else "an object"


def _absurd(name: str, time_ns: int, bounds: Bounds) -> Rejected:
    allowed = f"{_moment(bounds.earliest_ns)} to {_moment(bounds.latest_ns)}"
    return Rejected(
        RejectionCode.ABSURD_TIME,
        f"The {name}time is {_moment(time_ns)}; allowed: {allowed}.{_unit_hint(time_ns, bounds)}",
    )


def _unit_hint(time_ns: int, bounds: Bounds) -> str:
    """Return a sentence, after a space, about a time that would be allowed in a larger unit; empty for any other."""
    for unit, unit_ns in _UNITS.items():
        if bounds.earliest_ns <= time_ns * unit_ns <= bounds.latest_ns:
            return f" In nanoseconds since 1970 this is {time_ns}, which looks like {unit}."
    return ""


def _moment(time_ns: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=time_ns // 1_000)).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:
        return f"{time_ns} ns"
