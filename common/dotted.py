"""Nested attributes under dotted keys again: the inverse of ``common/nesting.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from common.nesting import SEGMENTS_MAX

KEYS_LENGTH_MAX: Final = 1024 * 1024
"""Characters of the dotted keys that one attribute becomes; past it the attribute is sent as a map, because every leaf
repeats the key of the map around it."""


def dotted(key: str, value: Any) -> dict[str, Any]:
    """Return one nested attribute under dotted keys, which ``common.nesting.nest`` turns into the same attribute.

    A map becomes keys unless it is empty, a name in it contains a dot that nesting did not leave there, or its names
    are those of an array. An array becomes numbered keys if its elements are maps and none is empty; other arrays are
    values.
    """
    if "." in key:  # nesting left the dot there because a scalar was in the way, and would not open a map below it
        return {key: value}
    keys = _DottedKeys()
    try:
        keys.put(key, value, 1)
    except _TooLong:
        return {key: value}
    return keys.values


class _TooLong(Exception):
    """The keys of an attribute exceed ``KEYS_LENGTH_MAX``."""


class _DottedKeys:
    """The attributes that one nested attribute becomes."""

    __slots__ = ("_characters_left", "values")

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._characters_left = KEYS_LENGTH_MAX

    def put(self, key: str, value: Any, segments_count: int) -> None:
        """Add ``value`` or what it becomes. Raises ``_TooLong``."""
        if segments_count < SEGMENTS_MAX:
            if type(value) is dict and _can_be_keys(value):
                for name, member in value.items():
                    self.put(f"{key}.{name}", member, SEGMENTS_MAX if "." in name else segments_count + 1)
                return
            if type(value) is list and _holds_maps(value):
                for index, element in enumerate(value):
                    self.put(f"{key}.{index}", element, segments_count + 1)
                return
        self._characters_left -= len(key)
        if self._characters_left < 0:
            raise _TooLong
        self.values[key] = value


def _can_be_keys(members: Mapping[str, Any]) -> bool:
    """Return whether nesting the names of a map again gives the same map."""
    if not members or all(str(index) in members for index in range(len(members))):
        return False
    seen: set[str] = set()
    for name, member in members.items():
        if "." in name and name.partition(".")[0] not in seen:
            return False
        if type(member) is not dict and type(member) is not list:
            seen.add(name)
    return True


def _holds_maps(array: list[Any]) -> bool:
    return bool(array) and all(type(element) is dict and element for element in array)
