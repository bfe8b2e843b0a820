"""The rows of mapping tables: which attribute becomes what under ``ag``.

A table is data: people read it, the engine (``engine.py``) applies it, the page on instrumentations is generated from
it. To support a new key, add a row. A convention is one file: its table, with the words and converters that it alone
needs; ``conventions.py`` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

ALL = ".*"
"""The end of a source or a target that means everything below it."""


class Reason(StrEnum):
    """Why a value cannot be what its key says; a label of the metric of mapping errors."""

    NOT_A_COUNT = "not_a_count"
    NOT_AN_AMOUNT = "not_an_amount"
    NOT_A_NUMBER = "not_a_number"
    NOT_TEXT = "not_text"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    NOT_MESSAGES = "not_messages"
    NOT_TOOLS = "not_tools"
    TOO_DEEP = "too_deep"


class MappingError(ValueError):
    """The value cannot be what its key says. It stays in the attributes as it was sent, and is counted by ``reason``.

    ``found`` is the part that could be read, if several values are read together.
    """

    def __init__(self, reason: Reason, *, found: Any = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.found = found


class Converter(NamedTuple):
    """How a value is read: ``says`` describes it in the docs, ``read`` is a function of the value or values.

    ``read`` returns what is put under ``ag``, or ``None`` for nothing, and raises ``MappingError``. It never changes
    its input, and its result is JSON-ready. ``has_value_of_json``: whether it returns something, even if with an error,
    for every text that begins like an object or array in JSON (``is_json_text``).
    """

    says: str
    read: Callable[..., Any]
    has_value_of_json: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One mapping.

    ``source``: a key; several keys that are read together, absent ones as ``None``; or all keys below a prefix
    (``llm.input_messages.*``), read nested, alone or as the last of several. ``target``: a path below ``ag``; if it
    ends in ``.*`` the converter returns an object whose members are put there one by one, which keeps what other rows
    put there. ``requires`` and ``unless``: regular expressions; the row applies only to spans that have, or do not
    have, a key that begins so. ``generations``: which versions write the key, if not all do.
    """

    source: str | tuple[str, ...]
    target: str
    reading: Converter
    note: str = ""
    generations: str = ""
    requires: str = ""
    unless: str = ""

    @property
    def sources(self) -> tuple[str, ...]:
        """The keys, or the one prefix."""
        return (self.source,) if isinstance(self.source, str) else self.source


class Convention(NamedTuple):
    """The attribute names of one convention, all its generations in one table. Later rows win over earlier ones."""

    name: str
    title: str
    rows: tuple[Row, ...]
