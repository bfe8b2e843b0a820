"""What an embedded reference names: from one of its three notations to a revision and a path. Pure.

A path has dots, or is a JSON Pointer (RFC 6901) or a JSON Path (RFC 9535) with names and indices. ``embeds.py`` finds
the references in data, ``resolving.py`` resolves them. Source: reference ``workflows-evaluators-testsets`` §4, which
decides where ``applications-api`` §7.4 differs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from pydantic import ValidationError

from common.errors import InvalidInput
from query_api.registry.checks import refuse_insufficient
from query_api.registry.values import EmbedTarget, Kind, References, Steps
from query_api.request.references import Reference, ReferenceIn

_JSON_PATH_STEP: Final = re.compile(
    r"\.(?P<name>[^.\[\]*'\"\s]{1,1000})|\[(?P<index>-?\d{1,9})\]"
    r"|\[(?P<quote>['\"])(?P<quoted>[^'\"\[\]\\]{0,1000})(?P=quote)\]"
)


class InvalidPath(ValueError):
    """Why a text is no path, as the end of a sentence that begins with its name."""


def steps_of(path: str) -> tuple[str, ...]:
    """Return the steps of ``a.0.b``, ``/a/0/b`` or ``$.a[0]['b']``, from the outside in. Raises ``InvalidPath``."""
    if path.startswith("$"):
        return _json_path(path)
    if path.startswith("/"):
        return tuple(step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/"))
    return tuple(path.split(".")) if path else ()


def _json_path(path: str) -> tuple[str, ...]:
    steps: list[str] = []
    at = 1
    while at < len(path):
        step = _JSON_PATH_STEP.match(path, at)
        if step is None:
            raise InvalidPath(f"may have only names and indices as JSON Path: {path[:200]}")
        steps.append(step["name"] or step["index"] or step["quoted"] or "")
        at = step.end()
    return tuple(steps)


MARKER: Final = "@ag.embed"
REFERENCES: Final = "@ag.references"
SELECTOR: Final = "@ag.selector"
_PATH: Final = "path"
_KEY: Final = "key"

KINDS: Final[Mapping[str, Kind]] = {
    "application": Kind.APPLICATION,
    "workflow": Kind.APPLICATION,
    "evaluator": Kind.APPLICATION,
    "environment": Kind.ENVIRONMENT,
}
"""The kinds that an embed may name. Workflows and evaluators are applications under the same ids."""

_NAMED: Final = re.compile(rf"({'|'.join(KINDS)})(_variant|_revision)?")
_LAYERS: Final = {None: "artifact", "_variant": "variant", "_revision": "revision"}

ENTITY: Final = re.compile(
    rf"(?:^|[,&])\s{{0,20}}(?:{_NAMED.pattern}\.\w{{1,64}}|\w{{1,64}}\.(?:id|slug|version))\s{{0,20}}[=:]"
)
"""The part of a compact token that names something. Templates contain ``@{{name}}``, which has none."""

REFERENCES_OF_DATA: Final = "references"
"""The member of the data of an environment in which its keys are."""

STEPS_MAX: Final = 64
"""The levels of data: a longer path leads to nothing."""

_DOTTED_NAMES_MAX: Final = 8
"""The names between the dots of a key that a dotted path may lead through."""

_COMPACT_ROOT: Final = "parameters"
_COMPACT_PATH: Final = ("prompt", "messages", "0", "content")
_MEMBERS_OF_DATA: Final = frozenset({_COMPACT_ROOT, REFERENCES_OF_DATA})
"""A path of a compact token that begins with one of these may also begin at the data."""


class EmbedError(StrEnum):
    """Why an embedded reference has no value: what a placeholder says."""

    INVALID = "InvalidReference"
    NOT_FOUND = "RevisionNotFound"
    NOTHING_THERE = "PathNotFound"
    CYCLE = "Cycle"
    TOO_DEEP = "TooDeep"
    TOO_MANY = "TooMany"
    TOO_LARGE = "TooLarge"


class Unresolved(ValueError):
    """Why an embedded reference has no value. The text does not name the place."""

    def __init__(self, text: str, error: EmbedError = EmbedError.INVALID) -> None:
        super().__init__(text)
        self.error = error


def target_of_object(source: Mapping[str, Any]) -> EmbedTarget:
    """Return what the object notation names. Raises ``Unresolved``."""
    if len(source) > 1:
        lost = ", ".join(repr(name) for name in source if name != MARKER)
        raise Unresolved(f"{lost[:200]} would be lost: '{MARKER}' must be the only member of its object")
    embed = source[MARKER]
    if not isinstance(embed, dict) or not isinstance(embed.get(REFERENCES), dict):
        raise Unresolved(f"'{MARKER}' needs the member '{REFERENCES}': an object with one member per kind")
    selector = embed.get(SELECTOR) or {}
    further = embed.keys() - {REFERENCES, SELECTOR}
    if further or not isinstance(selector, dict) or _present(selector).keys() - {_PATH, _KEY}:
        raise Unresolved(
            f"'{MARKER}' may have only the members '{REFERENCES}' and '{SELECTOR}'; the selector only '{_PATH}' and"
            f" '{_KEY}'"
        )
    key, path = (_text(selector, name) for name in (_KEY, _PATH))
    target = _target(_present(embed[REFERENCES]))
    return target._replace(paths=_spellings(target.kind, _steps(path or "")), key=key or None)


def target_of_text(references: str, selector: str | None) -> EmbedTarget:
    """Return what ``@ag.embed[…]`` names, given the texts within its brackets. Raises ``Unresolved``."""
    parts = [*references.split(","), *((selector or "").split(",") if selector else [])]
    named, options = _members(parts, separators="=")
    target = _target(named)
    paths = _spellings(target.kind, _steps(options.get(_PATH, "")))
    return target._replace(paths=paths, key=options.get(_KEY) or None, leads_through=True)


def target_of_compact(text: str) -> EmbedTarget:
    """Return what ``@{{…}}`` names, given the text within its braces. Raises ``Unresolved``.

    Its path begins at ``parameters``. Of an environment it is by default the only key whose reference is followed.
    """
    named, options = _members(re.split("[,&]", text), separators="=:")
    target = _target(named)
    path = options.get(_PATH)
    steps = _COMPACT_PATH if path is None else _steps(path)
    of_data = _spellings(target.kind, steps) if path and steps and steps[0] in _MEMBERS_OF_DATA else ()
    follows_only_key = target.kind is Kind.ENVIRONMENT and _KEY not in options
    key = "" if follows_only_key else options.get(_KEY) or None
    return target._replace(paths=((_COMPACT_ROOT, *steps), *of_data), key=key, leads_through=True)


def beyond(target: EmbedTarget, source: Mapping[str, Any], *, choice: int, steps_count: int) -> EmbedTarget:
    """Return what is at the paths of a target if the path ``choice`` (from 1) leads, after some steps, to the embed
    ``source``. Raises ``Unresolved``.
    """
    inner = target_of_object(source)
    begin = target.paths[choice - 1][:steps_count]
    rests = [path[steps_count:] for path in target.paths if path[:steps_count] == begin]
    paths = tuple(_bounded((*path, *rest)) for path in inner.paths for rest in rests)
    return inner._replace(paths=paths, leads_through=True)


def holder_of(target: EmbedTarget) -> EmbedTarget:
    """Return the references among which the key of a target is."""
    return target._replace(paths=((REFERENCES_OF_DATA,),), key=None, leads_through=False)


class KeyedReferences:
    """The references of an environment, found by their keys."""

    def __init__(self, references: Any) -> None:
        self._by_key: Mapping[str, Any] = references if isinstance(references, dict) else {}
        self._by_variant: defaultdict[str, list[Any]] = defaultdict(list)
        for entry in self._by_key.values():
            for slug in _variant_slugs(entry):
                self._by_variant[slug].append(entry)

    def followed(self, target: EmbedTarget) -> EmbedTarget:
        """Return what the key of a target leads to. Raises ``Unresolved``."""
        key = target.key or ""
        entry = self._find(key)
        if not isinstance(entry, dict):
            what = f"no reference under the key '{key[:200]}'" if key else "no single key; give one"
            raise Unresolved(f"{described(target)} has {what}", EmbedError.NOTHING_THERE)
        if entry and entry.keys() <= set(Reference._fields):
            word = key.rpartition(".")[2]
            entry = {word if _NAMED.fullmatch(word) else "application_revision": entry}
        return _target(_present(entry))._replace(paths=target.paths, leads_through=target.leads_through)

    def _find(self, key: str) -> Any:
        """Return the entry of a key: of its text, else of the path that it is, else of the variant with that slug."""
        if not key:
            return next(iter(self._by_key.values())) if len(self._by_key) == 1 else None
        if key in self._by_key:
            return self._by_key[key]
        nested: Any = self._by_key
        for step in key.split("."):
            nested = nested.get(step) if isinstance(nested, dict) else None
        if nested is not None:
            return nested
        of_variant = self._by_variant.get(key, [])
        return of_variant[0] if len(of_variant) == 1 else None


def _variant_slugs(entry: Any) -> set[str]:
    sent = [entry.get(f"{word}_variant") for word in KINDS] if isinstance(entry, dict) else []
    slugs = [reference.get("slug") for reference in sent if isinstance(reference, dict)]
    return {slug for slug in slugs if isinstance(slug, str)}


def described(target: EmbedTarget) -> str:
    """Return the references of a target in words: ``application_revision.slug=x``."""
    names = (f"{target.word}{suffix or ''}" for suffix in _LAYERS)
    return ", ".join(
        f"{name}.{member}={value}"
        for name, reference in zip(names, target.references, strict=True)
        for member, value in ((reference._asdict() if reference is not None else {}).items())
        if value is not None
    )


def _present(members: Mapping[str, Any]) -> dict[str, Any]:
    """Drop null members: clients send them for absent ones."""
    return {name: member for name, member in members.items() if member is not None}


def _members(parts: Sequence[str], *, separators: str) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Return the references and the options of a token."""
    options: dict[str, str] = {}
    references: dict[str, dict[str, str]] = {}
    for name, value in (_pair(part, separators) for part in parts):
        kind, dot, field = name.partition(".")
        if name in (_PATH, _KEY) and name not in options:
            options[name] = value
        elif dot and field not in references.setdefault(kind, {}):
            references[kind][field] = value
        else:
            raise Unresolved(f"'{name[:200]}' must have the form kind.field, or be {_PATH} or {_KEY}, and occur once")
    return references, options


def _pair(text: str, separators: str) -> tuple[str, str]:
    name, *value = re.split(f"[{separators}]", text, maxsplit=1)
    if not value:
        allowed = " or ".join(f"name{separator}value" for separator in separators)
        raise Unresolved(f"'{text.strip()[:200]}' must have the form {allowed}")
    return name.strip(), value[0].strip()


def _text(selector: Mapping[str, Any], name: str) -> str | None:
    text = selector.get(name)
    if text is not None and not isinstance(text, str):
        raise Unresolved(f"'{SELECTOR}.{name}' must be a text")
    return text


def _steps(path: str) -> Steps:
    try:
        return _bounded(steps_of(path))
    except InvalidPath as exc:
        raise Unresolved(f"'{SELECTOR}.{_PATH}' {exc}") from exc


def _spellings(kind: Kind, steps: Steps) -> tuple[Steps, ...]:
    """Return the paths that a path may mean: keys of an environment may have dots, as ``x.revision`` has by default."""
    first, names = steps[:1], steps[1:]
    if kind is not Kind.ENVIRONMENT or first != (REFERENCES_OF_DATA,) or not names:
        return (steps,)
    counts = range(1, min(len(names), _DOTTED_NAMES_MAX) + 1)
    return tuple((*first, ".".join(names[:count]), *names[count:]) for count in counts)


def _bounded(steps: Steps) -> Steps:
    if len(steps) > STEPS_MAX:
        raise Unresolved(f"a path has at most {STEPS_MAX} steps", EmbedError.NOTHING_THERE)
    if MARKER in steps:
        raise Unresolved(f"a path does not lead into '{MARKER}'", EmbedError.NOTHING_THERE)
    return steps


def _target(named: Mapping[str, Any]) -> EmbedTarget:
    words: set[str] = set()
    layers: dict[str, Reference] = {}
    for name, sent in named.items():
        kind = _NAMED.fullmatch(name)
        if kind is None:
            kinds = f"{', '.join(KINDS)}, and each with _variant or _revision"
            raise Unresolved(f"'{name[:200]}' is not a kind of reference; allowed: {kinds}")
        words.add(kind[1])
        layers[_LAYERS[kind[2]]] = _reference(name, sent)
    if all(reference == Reference() for reference in layers.values()):
        raise Unresolved("an embed needs at least one reference with id, slug or version")
    if len(words) > 1:
        raise Unresolved("all references of an embed must be of the same kind")
    word, references = words.pop(), _with_version_of_revision(layers)
    try:
        refuse_insufficient(word, references)
    except InvalidInput as exc:
        raise Unresolved(exc.detail) from exc
    return EmbedTarget(word, KINDS[word], references)


def _with_version_of_revision(layers: Mapping[str, Reference]) -> References:
    """Return references of which only that to the revision has a version. That of another one is meant so."""
    versions = {reference.version for reference in layers.values() if reference.version is not None}
    if len(versions) > 1:
        raise Unresolved(f"the references name different versions: {', '.join(sorted(versions))[:200]}")
    without = {layer: reference._replace(version=None) for layer, reference in layers.items()}
    if versions:
        without["revision"] = without.get("revision", Reference())._replace(version=versions.pop())
    return References(**without)


def _reference(name: str, sent: Any) -> Reference:
    if not isinstance(sent, dict):
        raise Unresolved(f"{name} must be an object with id, slug or version")
    try:
        return ReferenceIn.model_validate(sent).value()
    except ValidationError as exc:
        error = exc.errors()[0]
        where = ".".join([name, *(str(step)[:200] for step in error["loc"])])
        raise Unresolved(f"{where}: {error['msg'].removeprefix('Value error, ').rstrip('.')}") from exc
