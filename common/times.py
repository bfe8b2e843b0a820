"""Read the clock; parse and format times (reference §2, §5.4).

A time is an ``int`` since 1970, UTC: nanoseconds in a span, microseconds in responses and filters.
"""

from __future__ import annotations

import math
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

EARLIEST_US: Final = -62_135_596_800_000_000
LATEST_US: Final = 253_402_300_799_999_999
"""The first and the last time that ``format_us`` can format: the years 1 to 9999."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - formatting a time without a zone costs a third less
_MICROSECOND: Final = timedelta(microseconds=1)
_NS_PER_UNIT: Final = {10: 1_000_000_000, 13: 1_000_000, 16: 1_000, 19: 1}
_FRACTION: Final = re.compile(r"[.,]([0-9]{6})([0-9]{1,3})[0-9]*")
_BEFORE_NOW: Final = re.compile(r"-[0-9]{1,9}[smhdw]")
_MEANT_AS_RELATIVE: Final = re.compile(r"\s*(?:now|-(?!\s*[0-9.]+\Z))", re.IGNORECASE)
_SECONDS_PER_UNIT: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_ALLOWED: Final = (
    "allowed are ISO 8601, and seconds, milli-, micro- or nanoseconds since 1970 of 10, 13, 16 or 19 digits"
)


class Clock(Protocol):
    """Wall-clock time and monotonic time: a dependency, so that a test can move it."""

    def now_ns(self) -> int:
        """Return nanoseconds since 1970, UTC."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds from an arbitrary start; never decreases."""
        ...


class SystemClock:
    """The clocks of this machine."""

    now_ns = staticmethod(time.time_ns)
    monotonic_s = staticmethod(time.monotonic)


def format_us(time_us: int) -> str:
    """Format as RFC 3339 in UTC with ``Z``, with six digits of fraction, or none if it is zero.

    ``time_us``: microseconds since 1970. Raises ``OverflowError`` outside of the years 1 to 9999.
    """
    return (_NAIVE_EPOCH + timedelta(microseconds=time_us)).isoformat() + "Z"


def nearest_formattable_us(time_us: int) -> int:
    """Return the time itself, or the nearest in the years 1 to 9999 of UTC, which a time zone may leave."""
    return min(max(time_us, EARLIEST_US), LATEST_US)


def parse_time_ns(value: str | int | float) -> int:
    """Return nanoseconds since 1970, UTC.

    Reads ISO 8601 (``Z``, an offset, or only a date; UTC without a zone; nanoseconds are kept), an integer or a text of
    digits whose number of digits implies the unit (10 s, 13 ms, 16 µs, 19 ns), and a float of seconds. Raises
    ``ValueError`` with one sentence.
    """
    if isinstance(value, str):
        return _from_digits(int(value)) if value.isascii() and value.isdigit() and len(value) < 20 else _from_iso(value)
    if isinstance(value, float):
        return _from_seconds(value)
    return _from_digits(value)


class RelativeTime(str):
    """A time before now, as its text: ``now``, or a text such as ``-15m`` with a unit of ``s m h d w``."""

    __slots__ = ()

    @classmethod
    def read(cls, value: object) -> RelativeTime | None:
        """Return the relative time that a value is; ``None`` for any other value, and for a time before the year 1."""
        if not isinstance(value, str) or (value != "now" and not _BEFORE_NOW.fullmatch(value)):
            return None
        relative = cls(value)
        return relative if relative.at_us(0) >= EARLIEST_US else None

    def at_us(self, now_us: int) -> int:
        """Return the microseconds since 1970 that it means at ``now_us``."""
        if self == "now":
            return now_us
        return now_us - int(self[1:-1]) * _SECONDS_PER_UNIT[self[-1]] * 1_000_000


RELATIVE_TIMES: Final = "now, or a time before now with a unit of s m h d w, such as -15m"
"""What a message says is allowed."""


def looks_relative(value: object) -> bool:
    """Return whether a value is meant as a relative time, well-formed or not: no other time begins like it."""
    return isinstance(value, str) and _MEANT_AS_RELATIVE.match(value) is not None


def _from_digits(value: int) -> int:
    unit_ns = _NS_PER_UNIT.get(len(str(value))) if 0 < value < 10**19 else None
    if unit_ns is None:
        raise ValueError(f"Timestamp {_quoted(value)} is ambiguous: {_ALLOWED}.")
    return value * unit_ns


def _from_seconds(value: float) -> int:
    if not math.isfinite(value * 1e6):
        raise ValueError(f"Timestamp {value} is not a time: {_ALLOWED}.")
    return round(value * 1e6) * 1_000  # a double of current times resolves microseconds, not nanoseconds


def _from_iso(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise ValueError(f"Timestamp {_quoted(text)} cannot be read: {_ALLOWED}.") from exc
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND * 1_000 + _below_microsecond(text)


def _below_microsecond(text: str) -> int:
    """Return the digits of the fraction that ``datetime`` drops, as nanoseconds."""
    fraction = _FRACTION.search(text)
    return int(fraction[2].ljust(3, "0")) if fraction else 0


def _quoted(value: str | int) -> str:
    text = f"“{value}”" if isinstance(value, str) else format(value, "d") if abs(value) < 10**40 else "of many digits"
    return text if len(text) <= 66 else f"{text[:61]}…”"


def microseconds(moment: datetime) -> int:
    """Return microseconds since 1970; a time without a zone is UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
