"""How much longer the paths of a value's leaves are than the value (``common/clickhouse/leaves.py``).

Each leaf repeats the keys above it: 30,000 numbers below a key of 30,000 characters take 150 KB as sent, and 900 MB as
leaves. So values are limited by this growth (contract §4, “value too large”). Real ones stay below: a vector below a
path of 180 characters and integers below one of 60 are allowed, whatever their number.
"""

from __future__ import annotations

from typing import Any, Final

GROWTH_MAX: Final = 32
"""How many characters of paths each character of a key or a text allows. A member counts as two more, a number with a
fraction as another four."""

CHARACTERS_FREE: Final = 4_096
"""What any value may take."""

_MEMBER_LENGTH: Final = 2
_FRACTION_LENGTH: Final = 4


def has_long_paths(name: str, value: dict[str, Any] | list[Any]) -> bool:
    """Return whether the paths of the leaves of an array or object take more than ``CHARACTERS_FREE`` and
    ``GROWTH_MAX`` times its keys and values. The nesting must be bounded.
    """
    return _excess(value, len(name)) > CHARACTERS_FREE + GROWTH_MAX * len(name)


def _excess(container: Any, path_length: int) -> int:
    """Return how many characters the paths take more than they may, here and below; negative if less.

    Each JSON text of each span is walked, so objects and arrays have a loop of their own: one for both takes 1.5 times
    as long.
    """
    count = len(container)
    below, keys_length, texts_length = 0, 0, 0
    if type(container) is dict:
        for key, member in container.items():
            keys_length += len(key)
            kind = type(member)
            if kind is str:
                texts_length += len(member)
            elif kind is float:
                texts_length += _FRACTION_LENGTH
            elif kind is dict or kind is list:
                below += _excess(member, path_length + 1 + len(key))
    else:
        length = path_length + 1 + len(str(count))
        for member in container:
            kind = type(member)
            if kind is str:
                texts_length += len(member)
            elif kind is float:
                texts_length += _FRACTION_LENGTH
            elif kind is dict or kind is list:
                below += _excess(member, length)
    taken = keys_length + count * (path_length + 1)
    return taken - GROWTH_MAX * (keys_length + texts_length + _MEMBER_LENGTH * count) + below
