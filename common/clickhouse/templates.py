"""Attributes stored once: the template of a span's attributes, and their JSON text made of it and of the leaves.

A template is the JSON text of nested attributes with ``MARK`` in place of each scalar that is not null. Spans of one
place in a program have the same template, so the column ``attributes_template`` is a dictionary of few texts. Together
with ``leaves``, which are in the order of the document, it says everything that the JSON text says: the computed column
``attributes_json`` puts the two together (``computed_columns.sql``, ADR 0028). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, TypeAlias

import orjson

from common.clickhouse.leaves import SpanLeaves
from common.plans import CHARACTERS_MAX, Keys

MARK: Final = b"\0"
"""In no JSON text: JSON writes control characters as escapes, and no key holds U+0000."""

TEMPLATES_MAX: Final = 512
"""Each takes at most ``CHARACTERS_MAX`` with the paths by which it is found: of these, each repeats those above it."""

_NO_KEYS: Final[Keys] = ()

_Signature: TypeAlias = tuple[Keys, Keys, Keys]


class Templates:
    """The templates of spans, at most ``TEMPLATES_MAX``; when there are more, all are forgotten."""

    def __init__(self) -> None:
        self._templates: dict[_Signature, bytes] = {}

    def __len__(self) -> int:
        return len(self._templates)

    def of(self, nested: dict[str, Any], leaves: SpanLeaves, flat_keys: Keys | None) -> bytes:
        """Return the template of ``nested``, whose leaves are ``leaves``.

        ``flat_keys`` are the dotted keys that ``nested`` was made of without ``ag``, if the leaves were found by them:
        they tell arrays of numbered keys apart from objects.
        """
        signature = (flat_keys or _NO_KEYS, tuple(leaves.paths), tuple(leaves.notes))
        template = self._templates.get(signature)
        if template is None:
            template = template_of(nested)
            if len(template) + sum(map(len, chain(*signature))) <= CHARACTERS_MAX:
                if len(self._templates) >= TEMPLATES_MAX:
                    self._templates.clear()
                self._templates[signature] = template
        return template


def template_of(nested: dict[str, Any]) -> bytes:
    """Return the JSON text of ``nested`` with ``MARK`` in place of each scalar that is not null."""
    return b"".join(_pieces(nested))


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        before = b"{"
        for name, member in value.items():
            yield before + orjson.dumps(name) + b":"
            yield from _pieces(member)
            before = b","
        yield b"}" if value else b"{}"
    elif isinstance(value, list):
        before = b"["
        for element in value:
            yield before
            yield from _pieces(element)
            before = b","
        yield b"]" if value else b"[]"
    else:
        yield b"null" if value is None else MARK
