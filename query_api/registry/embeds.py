"""References that are embedded in data, in three notations, and what they name. Pure; ``resolving.py`` resolves them.

An object ``{"@ag.embed": {"@ag.references": {"<kind>": {…}}, "@ag.selector": {"path": "a.b"}}}`` is replaced by a
value. Within a text, ``@ag.embed[@ag.references[<kind>.<field>=<value>, …], @ag.selector[path=a.b]]`` and
``@{{<kind>.<field>=<value>, …, path=a.b}}`` are replaced by a text. Source: reference ``applications-api`` §7.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic import ValidationError

from common.errors import InvalidInput
from query_api.registry.checks import refuse_insufficient
from query_api.registry.values import EmbedTarget, Kind, References
from query_api.request.references import ReferenceIn

MARKER: Final = "@ag.embed"
_REFERENCES: Final = "@ag.references"
_SELECTOR: Final = "@ag.selector"
_PATH: Final = "path"
_MARKED: Final = f'"{MARKER}"'
_SPELLINGS: Final = (_MARKED, f"{MARKER}[", "@{{")

KINDS: Final[Mapping[str, Kind | None]] = {
    "application": Kind.APPLICATION,
    "workflow": Kind.APPLICATION,
    "environment": Kind.ENVIRONMENT,
    "evaluator": None,
}
"""The kinds that an embed may name. A workflow is an application under the same ids; evaluators are not stored here."""

_NAMED: Final = re.compile(rf"({'|'.join(KINDS)})(_variant|_revision)?")
_LAYERS: Final = {None: "artifact", "_variant": "variant", "_revision": "revision"}
_TOKEN: Final = re.compile(
    r"@ag\.embed\[(?:\s{0,20}@ag\.references\[(?P<references>[^\[\]]{0,10000})\]\s{0,20}"
    r"(?:,\s{0,20}@ag\.selector\[(?P<selector>[^\[\]]{0,10000})\]\s{0,20})?\])?"
    r"|@\{\{(?P<compact>\s{0,20}\w{1,64}\.\w{1,64}\s{0,20}=[^{}]{0,10000})\}\}"
)
"""A token in a text. The first notation also matches if only its beginning is right: then it has no groups and is an
error. The second matches only with a reference, because templates contain ``@{{name}}``. Every part is bounded,
because a match holds the interpreter lock.
"""


class Unresolved(ValueError):
    """Why an embedded reference has no value. The text does not name the place."""


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
        return _target_of_token(self.source) if self.is_text else _target_of_object(self.source)


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


def described(target: EmbedTarget) -> str:
    """Return the references of a target in words: ``application_revision.slug=x``."""
    names = (f"{target.word}{suffix or ''}" for suffix in _LAYERS)
    return ", ".join(
        f"{name}.{member}={value}"
        for name, reference in zip(names, target.references, strict=True)
        for member, value in ((reference._asdict() if reference is not None else {}).items())
        if value is not None
    )


def _target_of_object(source: Mapping[str, Any]) -> EmbedTarget:
    if len(source) > 1:
        lost = ", ".join(repr(name) for name in source if name != MARKER)
        raise Unresolved(f"{lost[:200]} would be lost: '{MARKER}' must be the only member of its object")
    embed = source[MARKER]
    if not isinstance(embed, dict) or not isinstance(embed.get(_REFERENCES), dict):
        raise Unresolved(f"'{MARKER}' needs the member '{_REFERENCES}': an object with one member per kind")
    selector = embed.get(_SELECTOR) or {}
    further = embed.keys() - {_REFERENCES, _SELECTOR}
    if further or not isinstance(selector, dict) or _present(selector).keys() - {_PATH}:
        raise Unresolved(
            f"'{MARKER}' may have only the members '{_REFERENCES}' and '{_SELECTOR}'; the selector only '{_PATH}'"
        )
    return _target(_present(embed[_REFERENCES]), selector.get(_PATH))


def _target_of_token(source: str) -> EmbedTarget:
    token = _TOKEN.fullmatch(source)
    named = None if token is None else token["compact"] or token["references"]
    if token is None or named is None:
        raise Unresolved(f"'{MARKER}' must be followed by [{_REFERENCES}[kind.field=value], {_SELECTOR}[{_PATH}=…]]")
    pairs = [
        _pair(text) for text in (*named.split(","), *([token["selector"]] if token["selector"] is not None else []))
    ]
    path: str | None = None
    references: dict[str, dict[str, str]] = {}
    for name, value in pairs:
        kind, dot, field = name.partition(".")
        if name == _PATH and path is None:
            path = value
        elif dot and field not in references.setdefault(kind, {}):
            references[kind][field] = value
        else:
            raise Unresolved(f"'{name[:200]}' must have the form kind.field and occur once")
    return _target(references, path)


def _present(members: Mapping[str, Any]) -> dict[str, Any]:
    """Drop null members: clients send them for absent ones."""
    return {name: member for name, member in members.items() if member is not None}


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise Unresolved(f"'{text.strip()[:200]}' must have the form name=value")
    return name.strip(), value.strip()


def _target(named: Mapping[str, Any], path: Any) -> EmbedTarget:
    if path is not None and (not isinstance(path, str) or "\0" in path):
        raise Unresolved(f"'{_SELECTOR}.{_PATH}' must be a dotted path such as parameters.greeting")
    words: set[str] = set()
    layers: dict[str, Any] = {}
    for name, sent in named.items():
        kind = _NAMED.fullmatch(name)
        if kind is None:
            kinds = f"{', '.join(KINDS)}, and each with _variant or _revision"
            raise Unresolved(f"'{name[:200]}' is not a kind of reference; allowed: {kinds}")
        words.add(kind[1])
        layers[_LAYERS[kind[2]]] = _reference(name, sent)
    if len(words) != 1:
        raise Unresolved("all references of an embed must be of the same kind")
    word, references = words.pop(), References(**layers)
    try:
        refuse_insufficient(word, references)
    except InvalidInput as exc:
        raise Unresolved(exc.detail) from exc
    return EmbedTarget(word, KINDS[word], references, path or "")


def _reference(name: str, sent: Any) -> Any:
    if not isinstance(sent, dict):
        raise Unresolved(f"{name} must be an object with id, slug or version")
    try:
        return ReferenceIn.model_validate(sent).value()
    except ValidationError as exc:
        error = exc.errors()[0]
        where = ".".join([name, *(str(step)[:200] for step in error["loc"])])
        raise Unresolved(f"{where}: {error['msg'].removeprefix('Value error, ').rstrip('.')}") from exc
