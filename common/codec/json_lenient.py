"""JSON that a strict parser rejects for its characters or its depth (contract §4): read them all the same.

As strict as the other parser about everything else (RFC 8259): a text may hold bytes that are not UTF-8, U+0000 and
halves of surrogate pairs, and values may be nested deeper. What is too deep for ``json`` is parsed step by step, which
takes twenty times as long.
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined] # missing in typeshed
from typing import Any, Final

import orjson

from common.codec.repair import LEVELS_MAX, UNREADABLE, decoded_text
from common.errors import Rejected, RejectionCode

_JSON_LEVELS_MAX: Final = 5 * LEVELS_MAX
"""A level of a value takes at most four in OTLP."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SCALAR: Final = re.compile(r"[-+.0-9A-Za-z]+")


def parse_leniently(raw: bytes) -> Any:
    """Return the value; texts may hold U+0000 and halves of surrogate pairs, among them ``UNREADABLE``.

    Raises ``ValueError`` if the bytes are not JSON, and ``Rejected`` if a value has too many levels.
    """
    text = decoded_text(raw).replace("\0", UNREADABLE)
    try:
        return _DECODER.decode(text)
    except RecursionError:
        return _DeepParser(text).parsed()


_DECODER: Final = json.JSONDecoder(parse_float=orjson.loads, parse_int=orjson.loads, parse_constant=orjson.loads)
"""Numbers are those of the strict parser, which knows no ``NaN``."""


class _DeepParser:
    """Parses one text without recursion: ``_containers`` are the arrays and objects that are open."""

    __slots__ = ("_at", "_containers", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._containers: list[Any] = []

    def parsed(self) -> Any:
        """Return the value of the whole text."""
        value = self._opened()
        root = value
        while self._containers:
            container = self._containers[-1]
            closing = "]" if type(container) is list else "}"
            if self._skips(closing):
                self._containers.pop()
                continue
            if container and not self._skips(","):
                raise ValueError(f"a comma is missing at character {self._at}")
            if type(container) is list:
                container.append(self._opened())
            else:
                self._add_member(container)
        if _SPACE.match(self._text, self._at).end() != len(self._text):  # type: ignore[union-attr] # always matches
            raise ValueError(f"more follows at character {self._at}")
        return root

    def _add_member(self, container: dict[str, Any]) -> None:
        if not self._skips('"'):
            raise ValueError(f"the name of a member is missing at character {self._at}")
        key, self._at = scanstring(self._text, self._at)
        if not self._skips(":"):
            raise ValueError(f"a colon is missing at character {self._at}")
        container[key] = self._opened()

    def _opened(self) -> Any:
        """Return the value that begins here; an array or object is still empty."""
        if self._skips('"'):
            text, self._at = scanstring(self._text, self._at)
            return text
        container: Any = [] if self._skips("[") else {} if self._skips("{") else None
        if container is not None:
            self._containers.append(container)
            if len(self._containers) > _JSON_LEVELS_MAX:
                raise Rejected(
                    RejectionCode.SPAN_TOO_LARGE,
                    f"The span has more than {_JSON_LEVELS_MAX} levels of JSON, which is too many even for a text.",
                )
            return container
        scalar = _SCALAR.match(self._text, self._at)
        if scalar is None:
            raise ValueError(f"a value is missing at character {self._at}")
        self._at = scalar.end()
        return orjson.loads(scalar[0])

    def _skips(self, character: str) -> bool:
        """Return whether this character follows, after spaces; if so, move past it."""
        at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr] # always matches
        self._at = at
        if not self._text.startswith(character, at):
            return False
        self._at = at + 1
        return True
