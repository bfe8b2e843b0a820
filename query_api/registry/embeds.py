"""References that are embedded in data, in three notations. Pure; ``resolving.py`` resolves them.

An object ``{"@ag.embed": {"@ag.references": {"<kind>": {…}}, "@ag.selector": {"path": "a.b"}}}`` is replaced by a
value. Within a text, ``@ag.embed[@ag.references[<kind>.<field>=<value>, …], @ag.selector[path=a.b]]`` and
``@{{<kind>.<field>=<value>, …, path=a.b}}`` are replaced by a text. ``embed_targets.py`` says what they name. Source:
reference ``workflows-evaluators-testsets`` §4 and ``applications-api`` §7.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from query_api.registry.embed_targets import (
    ENTITY,
    MARKER,
    REFERENCES,
    SELECTOR,
    Unresolved,
    target_of_compact,
    target_of_object,
    target_of_text,
)
from query_api.registry.values import EmbedTarget

_MARKED: Final = f'"{MARKER}"'
_SPELLINGS: Final = (_MARKED, f"{MARKER}[", "@{{")

_TOKEN: Final = re.compile(
    r"@ag\.embed\[(?:\s{0,20}@ag\.references\[(?P<references>[^\[\]]{0,10000})\]\s{0,20}"
    r"(?:,\s{0,20}@ag\.selector\[(?P<selector>(?:[^\[\]]|\[[^\[\]]{0,1000}\]){0,10000})\]\s{0,20})?\])?"
    r"|@\{\{(?P<compact>[^{}]{1,10000})\}\}"
)
"""A token in a text. The first notation also matches if only its beginning is right: then it has no groups and is an
error. The second is one only if it names something (``ENTITY``). A selector may hold the brackets of a JSON Path. Every
part is bounded, because a match holds the interpreter lock.
"""


class Embed(NamedTuple):
    """One embed in data."""

    source: Any
    """The object that holds the marker, or the token."""

    place: tuple[str | int, ...]
    """Its place in the data."""

    depth: int
    """The number of objects and arrays around it."""

    @property
    def is_text(self) -> bool:
        """Whether it is within a text, and so replaced by a text."""
        return isinstance(self.source, str)

    def target(self) -> EmbedTarget:
        """Return what it names. Raises ``Unresolved`` if the embed is invalid."""
        return _target_of_token(self.source) if self.is_text else target_of_object(self.source)


Replace: TypeAlias = Callable[[Embed], Any]
"""Returns what replaces an embed."""


def may_embed(text: str) -> bool:
    """Return quickly whether a JSON text may hold an embed. If false, it holds none."""
    return any(spelling in text for spelling in _SPELLINGS)


def holds_embed(text: str) -> bool:
    """Return whether a JSON text holds an embed, without parsing it."""
    return _MARKED in text or any(True for _ in _tokens(text))


def replaced(value: Any, replace: Replace, *, place: tuple[str | int, ...] = (), depth: int = 0) -> Any:
    """Return ``value`` with every embed replaced, from the first to the last."""
    if isinstance(value, str):
        return _replaced_text(value, lambda token: replace(Embed(token, place, depth)))
    if isinstance(value, list):
        return [replaced(item, replace, place=(*place, index), depth=depth + 1) for index, item in enumerate(value)]
    if isinstance(value, dict):
        if MARKER in value:
            return replace(Embed(value, place, depth))
        return {
            name: replaced(member, replace, place=(*place, name), depth=depth + 1) for name, member in value.items()
        }
    return value


def _replaced_text(text: str, replace: Callable[[str], str]) -> str:
    pieces, end = [], 0
    for token in _tokens(text):
        pieces += [text[end : token.start()], replace(token[0])]
        end = token.end()
    return "".join([*pieces, text[end:]]) if pieces else text


def _tokens(text: str) -> Iterator[re.Match[str]]:
    """Yield the tokens of a text. Each has a search of its own, so that other threads can run between two."""
    at = text.find("@")
    while at >= 0:
        token = _TOKEN.match(text, at)
        if token is not None and token["compact"] is not None and ENTITY.search(token["compact"]) is None:
            token = None
        if token is not None:
            yield token
        at = text.find("@", at + 1 if token is None else token.end())


def targets_in(values: Iterable[Any], *, count_max: int) -> list[EmbedTarget]:
    """Return the distinct targets of the first ``count_max`` embeds in some values, in order."""
    found: dict[EmbedTarget, None] = {}
    places = iter(range(count_max))

    def note(embed: Embed) -> str:
        if next(places, None) is not None:
            with suppress(Unresolved):  # reported when the value is assembled
                found[embed.target()] = None
        return ""

    for value in values:
        replaced(value, note)
    return list(found)


def depth_of(value: Any) -> int:
    """Return the number of levels of objects and arrays."""
    level, depth = [value], 0
    while around := [value for value in level if isinstance(value, dict | list)]:
        level = [member for outer in around for member in (outer.values() if isinstance(outer, dict) else outer)]
        depth += 1
    return depth


def _target_of_token(source: str) -> EmbedTarget:
    token = _TOKEN.fullmatch(source)
    if token is not None and token["compact"] is not None:
        return target_of_compact(token["compact"])
    if token is not None and token["references"] is not None:
        return target_of_text(token["references"], token["selector"])
    raise Unresolved(f"'{MARKER}' must be followed by [{REFERENCES}[kind.field=value], {SELECTOR}[path=…]]")
