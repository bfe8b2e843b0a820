"""What filters look at: the leaves of a span's nested attributes, each a dotted path and a typed text.

This defines the column ``leaves`` of the table ``spans`` (``ddl/0001_baseline.sql``). It is pure, and both processes
rely on it: the worker writes leaves, the compiler of filters asks for them by path.

- A scalar that is not null is a leaf. Its text is ``s`` and the text, ``n`` and the number, ``b1`` or ``b0``.
- An object or array without such a scalar anywhere below is a leaf too, so that ``exists`` can see it: ``o``, ``a``.
  The objects that normalization puts into every span (``ALWAYS_OBJECT_PATHS``) are left out: they say nothing, and
  would cost four entries for each span.
- A null is not a leaf: absent and null are the same (contract §3.2). In SQL an absent leaf is ``''``, which is the text
  of no leaf.
- The path of a leaf is the key that finds it (``common/paths.py``): the names on the way to it, joined by dots; those
  in an array are its indexes in decimal. U+0000, which no key can contain, ends the path of a leaf that no key finds,
  because its names have dots and another value is in its way (``HIDDEN``). No two leaves that are found share a path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from common.json_values import number_text
from common.nesting import nest
from common.paths import located
from common.plans import CHARACTERS_MAX, Keys, Plans

ALWAYS_OBJECT_PATHS = frozenset(
    {
        "ag",
        "ag.type",
        "ag.data",
        "ag.metrics",
        "ag.metrics.duration",
        "ag.metrics.errors",
        "ag.metrics.tokens",
        "ag.metrics.costs",
    }
)

MODEL_COLUMN = "model_leaf"
"""The column with the leaf of ``ag.meta.response.model``, or if there is none, that of ``ag.meta.request.model``."""

EMPTY_OBJECT = "o"
EMPTY_ARRAY = "a"

PAIR_LENGTH_MAX: Final = 16
FRACTION_LENGTH_MAX: Final = 6
"""The longest typed texts, in characters, that the index of pairs holds (``ddl/0001_baseline.sql``): of numbers
with a fraction, and of everything else. Longer ones are mostly different in each span: they would take most of the
index."""

CONTAINERS_MAX = 2_048
MEMBERS_MAX = 32
PATH_CHARACTERS_MAX = 128
"""How many paths are cached, and their length: 20 MB at worst."""

ORDERS_MAX: Final = 512
"""Sets of flat keys of which the order in the document is cached."""

_ARRAY = "["
_NULL = "0"
"""The first letters of notes, before a path. Those of empty containers are the texts of their leaves."""

HIDDEN: Final = "\0"
"""The end of the path of a leaf that no key finds."""

_DOT_IN_NAME: Final = "\0"
"""Stands for a dot inside a name until it is known whether a key finds the leaf."""

_INDEXES = tuple(map(str, range(64)))  # enough for most arrays

_METRICS: Final = {kind: f"ag.metrics.{kind}" for kind in ("duration", "errors", "tokens", "costs")}
_TYPES: Final = {kind: f"ag.type.{kind}" for kind in ("trace", "span")}
"""The paths of the members of ``ag.metrics`` and ``ag.type`` in the canonical shape."""


class _MemberPaths(dict[str, str]):
    """The paths of a container's members by their names. Spans have the same paths again and again, so they are cached:
    leaves of one span of a model call: 37 µs instead of 40.
    """

    def __init__(self, container: str | None) -> None:
        super().__init__()
        self._prefix = "" if container is None else f"{container}."

    def __missing__(self, name: str) -> str:
        path = self._prefix + name.replace(".", _DOT_IN_NAME)
        if len(self) < MEMBERS_MAX and len(path) <= PATH_CHARACTERS_MAX:
            self[name] = path
        return path


class _ContainerPaths(dict[str | None, _MemberPaths]):
    """The paths of members by the path of their container, ``None`` for the root: at most ``CONTAINERS_MAX``; when
    there are more, all are forgotten. Long paths are not kept.
    """

    def __missing__(self, container: str | None) -> _MemberPaths:
        paths = _MemberPaths(container)
        if container is None or len(container) <= PATH_CHARACTERS_MAX:
            if len(self) >= CONTAINERS_MAX:
                self.clear()
            self[container] = paths
        return paths


_member_paths: Final = _ContainerPaths()


def typed_text(value: str | float) -> str:
    """Return the text of a scalar leaf: one letter for its type, then its value. Takes text, numbers and booleans."""
    if type(value) is float and value % 1:  # as in `number_text`, without the calls
        return "n" + orjson.dumps(value).decode()
    if isinstance(value, str):
        return "s" + value
    if isinstance(value, bool):
        return "b1" if value else "b0"
    return "n" + number_text(value)


def has_pair(typed: str) -> bool:
    """Return whether the index of pairs holds a leaf with this typed text."""
    is_fraction = typed.startswith("n") and "." in typed
    return len(typed) <= (FRACTION_LENGTH_MAX if is_fraction else PAIR_LENGTH_MAX)


class SpanLeaves:
    """The leaves of one span: ``paths`` and ``texts`` are parallel, in the order of the document.

    In ``paths`` U+0000 stands for a dot inside a name: ``Templates`` knows the paths that are stored.

    ``notes`` say what the paths leave open: which containers are arrays, which are empty, where nulls are. Spans with
    the same paths and notes have the same template (``Templates``).
    """

    __slots__ = ("notes", "paths", "texts")

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.texts: list[str] = []
        self.notes: list[str] = []

    def append(self, attributes: dict[str, Any]) -> None:
        """Append the leaves of nested ``attributes``; an empty container comes after its members.

        The depth is bounded: decoding allows 24 levels for a value, nesting 24 levels for a key.
        """
        _append_members(attributes.items(), None, self.paths.append, self.texts.append, self.notes.append)

    def append_ag(self, ag: dict[str, Any]) -> None:
        """Append the leaves of an ``ag`` in its canonical shape (``ingest/ag.py``).

        The same leaves as those of ``append``, without visiting what every span has.
        """
        add_path, add_text, add_note = self.paths.append, self.texts.append, self.notes.append
        for name, member in ag.items():
            if name == "metrics":
                for kind, metric in member.items():
                    path = _METRICS[kind]
                    if metric:
                        _append_members(metric.items(), path, add_path, add_text, add_note)
                    else:
                        add_note(EMPTY_OBJECT + path)
            elif name == "type":
                for kind, text in member.items():
                    add_path(_TYPES[kind])
                    add_text("s" + text)
            else:
                _append_members(((name, member),), "ag", add_path, add_text, add_note)

    def append_flat(self, flat: dict[str, Any]) -> bool:
        """Append the leaves of flat attributes whose dotted keys are the paths of their values
        (``NormalizedSpan.flat``), in the order of the document that they make.

        Only structured values are descended into. Return ``False`` and append nothing if a value holds no scalar: only
        ``append`` can tell whether the containers around it are leaves.
        """
        in_order = _document_order(flat)
        paths: list[str] = []
        texts: list[str] = []
        notes: list[str] = []
        add_text = texts.append
        has_structured = False
        for path in in_order:
            value = flat[path]
            kind = type(value)
            if kind is str:
                add_text("s" + value)
            elif kind is int:
                add_text(f"n{value}")
            elif kind is dict or kind is list:
                if not has_structured:
                    paths = list(in_order[: len(texts)])
                    has_structured = True
                if kind is list:
                    notes.append(_ARRAY + path)
                members = value.items() if kind is dict else _elements(value)
                if not _append_members(members, path, paths.append, add_text, notes.append):
                    return False
                continue
            elif value is None:
                return False
            else:
                add_text(typed_text(value))
            if has_structured:
                paths.append(path)
        self.paths.extend(paths if has_structured else in_order)
        self.texts.extend(texts)
        self.notes.extend(notes)
        return True


def _document_order(flat: dict[str, Any]) -> Keys:
    """Return the keys in the order in which the nested document has their values."""
    return _orders.of(tuple(flat))


def _order_of(keys: Keys) -> Keys:
    ordered: list[str] = []
    containers: list[Any] = [nest({key: key for key in keys})]
    while containers:
        found = containers.pop()
        if isinstance(found, str):
            ordered.append(found)
        else:
            members = found.values() if isinstance(found, dict) else found
            containers.extend(reversed(list(members)))
    return keys if ordered == list(keys) else tuple(ordered)


_orders: Final = Plans(_order_of, max_count=ORDERS_MAX)


def _append_members(
    members: Iterable[tuple[str, Any]],
    container: str | None,
    add_path: Callable[[str], None],
    add_text: Callable[[str], None],
    add_note: Callable[[str], None],
) -> bool:
    """Add the leaves of the container at this path, ``None`` for the root; return whether one of them is a scalar.

    Called for each container of each span, so it is one flat function.
    """
    paths = _member_paths[container]
    holds_scalar = False
    for name, value in members:
        path = paths[name]
        kind = type(value)
        if kind is str:
            add_path(path)
            add_text("s" + value)
            holds_scalar = True
        elif kind is int:
            add_path(path)
            add_text(f"n{value}")
            holds_scalar = True
        elif kind is dict:
            if value and _append_members(value.items(), path, add_path, add_text, add_note):
                holds_scalar = True
            else:
                add_note(EMPTY_OBJECT + path)
                if path not in ALWAYS_OBJECT_PATHS:
                    add_path(path)
                    add_text(EMPTY_OBJECT)
        elif kind is list:
            if value and _append_members(_elements(value), path, add_path, add_text, add_note):
                holds_scalar = True
                add_note(_ARRAY + path)
            else:
                add_path(path)
                add_text(EMPTY_ARRAY)
                add_note(EMPTY_ARRAY + path)
        elif value is not None:
            add_path(path)
            add_text(typed_text(value))
            holds_scalar = True
        else:
            add_note(_NULL + path)
    return holds_scalar


def _elements(array: list[Any]) -> Iterable[tuple[str, Any]]:
    return zip(_INDEXES if len(array) <= len(_INDEXES) else map(str, count()), array, strict=False)


# Attributes stored once: a template is the JSON text of nested attributes with ``MARK`` in place of each scalar that is
# not null. Spans of one place in a program have the same template, so the column ``attributes_template`` is a
# dictionary of few texts. Together with ``leaves``, which are in the order of the document, it says everything that the
# JSON text says: the computed column ``attributes_json`` puts the two together (``computed_columns.sql``, ADR 0028).

MARK: Final = b"\0"
"""In no JSON text: JSON writes control characters as escapes, and no key holds U+0000."""

TEMPLATES_MAX: Final = 512
"""Each takes at most ``CHARACTERS_MAX`` with the paths by which it is found: of these, each repeats those above it."""

_NO_KEYS: Final[Keys] = ()

_Signature: TypeAlias = tuple[Keys, Keys, Keys]


class Template(NamedTuple):
    """What spans of one structure have in common.

    ``text``: ``template_of`` their attributes. ``stored_paths``: the paths of their leaves as they are stored, if a
    name has a dot.
    """

    text: bytes
    stored_paths: Keys | None


class Templates:
    """The templates of spans, at most ``TEMPLATES_MAX``; when there are more, all are forgotten."""

    def __init__(self) -> None:
        self._templates: dict[_Signature, Template] = {}

    def __len__(self) -> int:
        return len(self._templates)

    def of(self, nested: Callable[[], dict[str, Any]], leaves: SpanLeaves, flat_keys: Keys | None) -> Template:
        """Return the template of the attributes that ``nested`` returns, whose leaves are ``leaves``.

        ``flat_keys`` are the dotted keys that they were made of without ``ag``, if the leaves were found by them:
        they tell arrays of numbered keys apart from objects.
        """
        signature = (flat_keys or _NO_KEYS, tuple(leaves.paths), tuple(leaves.notes))
        template = self._templates.get(signature)
        if template is None:
            attributes = nested()
            template = Template(template_of(attributes), _stored_paths(attributes, leaves.paths))
            if len(template.text) + sum(map(len, chain(*signature))) <= CHARACTERS_MAX:
                if len(self._templates) >= TEMPLATES_MAX:
                    self._templates.clear()
                self._templates[signature] = template
        return template


def _stored_paths(nested: dict[str, Any], paths: list[str]) -> Keys | None:
    if not any(_DOT_IN_NAME in path for path in paths):
        return None
    return tuple(_stored_path(nested, path) if _DOT_IN_NAME in path else path for path in paths)


def _stored_path(nested: dict[str, Any], path: str) -> str:
    """Return the key of a leaf, and ``HIDDEN`` after it if that key does not find this leaf."""
    names = tuple(name.replace(_DOT_IN_NAME, ".") for name in path.split("."))
    key = ".".join(names)
    found = located(nested, tuple(key.split(".")))
    return key if found is not None and found.names == names else key + HIDDEN


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
