"""Columns of times as answers write them, whole columns at a time: one call into C for all the times of a page."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import orjson

from common.times import format_us

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z
_NS_PER_US: Final = 1_000
_NS_US_MAX: Final = 2**63 // _NS_PER_US - 1
"""The times whose nanoseconds 64 bits hold: about 292 years around 1970."""


def shown_times(times_us: Integers) -> list[bytes]:
    """Microseconds since 1970 as of ``format_us``, in quotes."""
    try:
        return _split(orjson.dumps(times_us.view("datetime64[us]"), option=_OPTIONS))
    except TypeError:  # orjson knows no time of the last day of the year 9999
        return [b'"%b"' % format_us(time_us).encode() for time_us in times_us.tolist()]


def shown_nanoseconds(times_us: Integers, rests_ns: Integers) -> list[bytes]:
    """Microseconds since 1970 and the nanoseconds beyond them, together, as digits."""
    if np.abs(times_us).max(initial=0) <= _NS_US_MAX:
        return _split(orjson.dumps(times_us * _NS_PER_US + rests_ns, option=_OPTIONS))
    pairs = zip(times_us.tolist(), rests_ns.tolist(), strict=True)
    return [b"%d" % (time_us * _NS_PER_US + rest_ns) for time_us, rest_ns in pairs]


def _split(array: bytes) -> list[bytes]:
    """The texts of an array's items, which have no comma in them."""
    return array[1:-1].split(b",") if len(array) > len(b"[]") else []
