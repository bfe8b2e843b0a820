"""The parameters of a statement: a user's text travels as one of these, never as SQL."""

from __future__ import annotations

from typing import Any


class Parameters:
    """Collects values and returns their placeholders, ``{p1:String}`` and so on. A text or list of texts gets one
    placeholder."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._places: dict[str | tuple[str, ...], str] = {}

    def place(self, kind: str, value: Any) -> str:
        """Add a value and return its placeholder; ``kind`` is a type of the engine."""
        name = f"p{len(self.values) + 1}"
        self.values[name] = value
        return f"{{{name}:{kind}}}"

    def text(self, value: str) -> str:
        """Return the placeholder of a text."""
        if value not in self._places:
            self._places[value] = self.place("String", value)
        return self._places[value]

    def texts(self, values: list[str]) -> str:
        """Return the placeholder of a list of texts."""
        key = tuple(values)
        if key not in self._places:
            self._places[key] = self.place("Array(String)", values)
        return self._places[key]


def ids_in(place: str) -> str:
    """Return the right side of ``IN`` for ids whose hexadecimal digits are at ``place``, an ``Array(String)``.

    It is a subquery because the engine uses an index for one, but not for an array that is computed.
    """
    return f"(SELECT toFixedString(unhex(arrayJoin({place})), 16))"
