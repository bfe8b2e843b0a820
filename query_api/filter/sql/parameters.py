"""The values of a statement: a user's text is only ever one of these, never SQL."""

from __future__ import annotations

from typing import Any


class Parameters:
    """Collects values and hands out their places, ``{p1:String}`` and so on; a text that comes again has its place already."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._texts: dict[str, str] = {}

    def place(self, kind: str, value: Any) -> str:
        """The place of a value in SQL; ``kind`` is a type of the engine."""
        name = f"p{len(self.values) + 1}"
        self.values[name] = value
        return f"{{{name}:{kind}}}"

    def text(self, value: str) -> str:
        """The place of a text."""
        place = self._texts.get(value)
        if place is None:
            place = self._texts[value] = self.place("String", value)
        return place

    def texts(self, values: list[str]) -> str:
        """The place of a list of texts."""
        return self.place("Array(String)", values)


def ids_in(place: str) -> str:
    """The right side of ``IN`` for ids whose hexadecimal digits are at ``place``, an ``Array(String)``.

    A subquery, because the engine uses an index for one, and not for an array that is computed.
    """
    return f"(SELECT toFixedString(unhex(arrayJoin({place})), 16))"
