"""Masking: the rules of a project, and what they do to one value (contract §9, ADR 0021).

A rule names an attribute by a pattern of its dotted path (``key``), finds text by a regular expression of RE2
(``value``), or does both: then it finds text only below that key. ``redact`` and ``hash`` replace, ``drop`` removes. A
key that masks an object masks everything in it. Text that is JSON is read as JSON: instrumentations send conversations
as JSON inside of a text. Whatever changes is written again.

Pure. Which parts of a span are masked: ``ingest/masking``.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from time import thread_time
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
import re2

REDACTED: Final = "[masked]"
HASH_PREFIX: Final = "hash:"
HASH_DIGITS: Final = 32

DEPTH_MAX: Final = 64
"""Levels of objects, arrays and JSON inside of text that are examined; what is deeper is redacted as a whole."""

SEARCH_S_MAX: Final = 3.0
"""Processor time that the expressions of a project may take in one chunk of records; what is left is redacted as a
whole. The usual cost is a hundredth; one project must not slow down its neighbors."""

SEARCH_COST_MAX: Final = 500_000_000
"""Instructions of RE2 times bytes of one search, 2 to 5 s at worst; a text that would take more is redacted as a
whole."""

KNOWN_PATHS_MAX: Final = 20_000
CLEAN_TEXTS_MAX: Final = 20_000
CLEAN_CHARACTERS_MAX: Final = 200
_PATTERN_MEMORY: Final = 8 << 20
_JSON_BEGINS: Final = frozenset('{["')


class MaskAction(StrEnum):
    """What a rule does with what it finds."""

    DROP = "drop"
    HASH = "hash"
    REDACT = "redact"


class MaskPlace(StrEnum):
    """A part of a span that rules examine."""

    ATTRIBUTES = "attributes"
    RESOURCE = "resource"
    SCOPE = "scope"
    EVENTS = "events"
    LINKS = "links"
    SPAN_NAME = "span_name"
    STATUS_MESSAGE = "status_message"


class MaskRule(NamedTuple):
    """One rule: ``key``, ``value`` or both are set. No ``places`` means all."""

    action: MaskAction
    key: str | None = None
    value: str | None = None
    places: tuple[MaskPlace, ...] = ()


class ProjectRules(NamedTuple):
    """The rules of a project, in the order in which they apply, and the secret of its hashes."""

    rules: tuple[MaskRule, ...]
    hash_key: bytes


class MaskSet(NamedTuple):
    """The rules of all projects that have some, as JSON, so that a process reads only what it does not know yet."""

    text: bytes = b""


NO_MASKS: Final = MaskSet()


def pack(projects: Mapping[UUID, ProjectRules]) -> MaskSet:
    """Return the rules of all projects in a form that is cheap to pass between processes."""
    if not projects:
        return NO_MASKS
    members = {
        str(project): {"hash_key": rules.hash_key.hex(), "rules": [rule._asdict() for rule in rules.rules]}
        for project, rules in sorted(projects.items())
    }
    return MaskSet(orjson.dumps(members))


@lru_cache(maxsize=2)
def unpack(masks: MaskSet) -> Mapping[UUID, Mask]:
    """Return the mask of each project; ready for use, and remembered while the rules do not change."""
    members = orjson.loads(masks.text or b"{}")
    return {UUID(project): Mask(_rules_of(packed)) for project, packed in members.items()}


def _rules_of(packed: Mapping[str, Any]) -> ProjectRules:
    rules = tuple(
        MaskRule(
            MaskAction(rule["action"]), rule["key"], rule["value"], tuple(MaskPlace(place) for place in rule["places"])
        )
        for rule in packed["rules"]
    )
    return ProjectRules(rules, bytes.fromhex(packed["hash_key"]))


def compile_value(pattern: str) -> Any:
    """Compile a regular expression. Raises ``ValueError`` with what is wrong; one that matches no text is wrong too."""
    options = re2.Options()
    options.max_mem = _PATTERN_MEMORY
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as exc:
        text = exc.args[0] if exc.args else ""
        raise ValueError(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)) from exc
    if compiled.search("") is not None:
        raise ValueError("it matches the empty text")
    return compiled


def compile_key(pattern: str) -> Any:
    """Compile the pattern of a path: ``*`` stands for any characters; everything else for itself, in any case."""
    literals = (re2.escape(part) for part in pattern.split("*"))
    return re2.compile(f"(?is)(?:{'.*'.join(literals)})")


class _Rule(NamedTuple):
    """A rule that is ready for use."""

    action: MaskAction
    key: Any
    value: Any


class _TextRules:
    """The rules about text that apply together, and the texts in which they are known to find nothing.

    Names of members repeat in every span, and so do many values: they are searched once.
    """

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self.rules = rules
        self._any = _any_of([rule.value.pattern for rule in rules])
        self._size = max((rule.value.programsize for rule in rules), default=0)
        self._clean: set[str] = set()

    def knows(self, text: str) -> bool:
        """Return whether it is known that no rule finds anything."""
        return not self.rules or text in self._clean

    def is_too_costly(self, text: str) -> bool:
        """Return whether a search could take too long."""
        return self._size * len(text) > SEARCH_COST_MAX

    def find_nothing(self, text: str) -> bool:
        """Return whether no rule finds anything."""
        is_joint = self._any is not None and self._any.programsize * len(text) <= SEARCH_COST_MAX
        if self._any.search(text) if is_joint else any(rule.value.search(text) for rule in self.rules):
            return False
        if len(text) <= CLEAN_CHARACTERS_MAX:
            if len(self._clean) >= CLEAN_TEXTS_MAX:
                self._clean.clear()
            self._clean.add(text)
        return True


def _any_of(patterns: Sequence[str]) -> Any:
    """Return one expression that finds what any of these finds; ``None`` if there is none that is sure to."""
    if not patterns or any("\\Q" in pattern for pattern in patterns):  # a quote that is not closed takes in the rest
        return None
    try:
        return compile_value("|".join(f"(?:{pattern})" for pattern in patterns))
    except ValueError:
        return None


class _Found(NamedTuple):
    """What the rules say about a path: the action of the first rule that masks all of it, and those about text."""

    action: MaskAction | None
    values: _TextRules


class _Dropped:
    """Stands for a value that is gone."""


DROPPED: Final = _Dropped()


class Mask:
    """The rules of one project. Not for two threads at once. ``count`` is how many values were masked so far."""

    def __init__(self, rules: ProjectRules) -> None:
        self.count = 0
        self._searched_s = 0.0
        self._hash_key = rules.hash_key
        compiled = [
            (
                rule.places,
                _Rule(
                    rule.action,
                    None if rule.key is None else compile_key(rule.key),
                    None if rule.value is None else compile_value(rule.value),
                ),
            )
            for rule in rules.rules
        ]
        self._rules = {
            place: [rule for places, rule in compiled if not places or place in places] for place in MaskPlace
        }
        self._text_rules: dict[tuple[int, ...], _TextRules] = {}
        self._without_key = {
            place: self._together([rule for rule in rules if rule.key is None]) for place, rules in self._rules.items()
        }
        self._anywhere = self._together([rule for _, rule in compiled if rule.key is None])
        self._found: dict[tuple[MaskPlace, str], _Found] = {}

    def begin(self) -> None:
        """Begin a chunk of records: the time of its expressions counts from here."""
        self._searched_s = 0.0

    def text(self, place: MaskPlace, text: str) -> str | None:
        """Return a text that has no key, such as a name; ``None`` if it is dropped."""
        masked = self._text(place, "", text, self._without_key[place], 0)
        return None if masked is DROPPED else str(masked)

    def text_anywhere(self, text: str) -> str | None:
        """Return a text that stands in no place of a span, such as a header, masked by all rules without a key."""
        masked = self._text(MaskPlace.ATTRIBUTES, "", text, self._anywhere, 0)
        return None if masked is DROPPED else str(masked)

    def attributes(self, place: MaskPlace, attributes: dict[str, Any], prefix: str = "") -> dict[str, Any]:
        """Return attributes, flat or nested; the same object if nothing is masked. ``prefix`` is the path to them."""
        if not self._rules[place] or not attributes:
            return attributes
        return self._members(place, prefix, attributes, 0)

    def member(self, place: MaskPlace, path: str, value: Any) -> Any:
        """Return the value at a path, or ``DROPPED``; the same object if nothing is masked."""
        return self._value(place, path, value, 0)

    def key(self, place: MaskPlace, path: str, key: str) -> str | None:
        """Return the last part of a path, in which rules find text too; ``None`` if the member is dropped."""
        masked = self._plain(key, self._of(place, path).values)
        return None if masked is DROPPED else str(masked)

    def _value(self, place: MaskPlace, path: str, value: Any, depth: int) -> Any:
        found = self._of(place, path)
        if found.action is not None:
            self.count += 1
            return self._replaced(found.action, value)
        if isinstance(value, str):
            return self._text(place, path, value, found.values, depth)
        if isinstance(value, dict | list) and value:
            if depth >= DEPTH_MAX:
                self.count += 1
                return REDACTED
            if isinstance(value, dict):
                return self._members(place, path, value, depth + 1)
            return self._elements(place, path, value, depth + 1)
        if isinstance(value, int | float) and not isinstance(value, bool) and found.values.rules:
            text = orjson.dumps(value).decode()
            masked = self._plain(text, found.values)
            return value if masked == text else masked
        return value

    def _members(self, place: MaskPlace, path: str, members: dict[str, Any], depth: int) -> dict[str, Any]:
        masked: dict[str, Any] = {}
        is_same = True
        for key, value in members.items():
            below = f"{path}.{key}" if path else key
            kept = self._value(place, below, value, depth)
            shown = key if kept is DROPPED else self.key(place, below, key)
            if kept is DROPPED or shown is None:
                is_same = False
                continue
            is_same = is_same and kept is value and shown == key
            masked[shown] = kept
        return members if is_same else masked

    def _elements(self, place: MaskPlace, path: str, elements: list[Any], depth: int) -> list[Any]:
        masked = [self._value(place, f"{path}.{index}", element, depth) for index, element in enumerate(elements)]
        if all(kept is element for kept, element in zip(masked, elements, strict=True)):
            return elements
        return [kept for kept in masked if kept is not DROPPED]

    def _text(self, place: MaskPlace, path: str, text: str, values: _TextRules, depth: int) -> Any:
        """Return a text as JSON with masked values if it is JSON, and then without what rules find in it."""
        inner = _json_in(text)
        if inner is not None:
            kept = REDACTED if depth >= DEPTH_MAX else self._inside(place, path, inner, values, depth + 1)
            if kept is DROPPED:
                return DROPPED
            if kept is not inner:
                text = orjson.dumps(kept).decode()
        return self._plain(text, values)

    def _inside(self, place: MaskPlace, path: str, inner: Any, values: _TextRules, depth: int) -> Any:
        """Return a value that was JSON inside of a text at this path."""
        if isinstance(inner, str):
            return self._text(place, path, inner, values, depth)
        return (self._members if isinstance(inner, dict) else self._elements)(place, path, inner, depth)

    def _plain(self, text: str, values: _TextRules) -> Any:
        if values.knows(text):
            return text
        if self._searched_s > SEARCH_S_MAX or values.is_too_costly(text):
            self.count += 1
            return REDACTED
        begun_s = thread_time()
        try:
            return text if values.find_nothing(text) else self._masked(text, values)
        finally:
            self._searched_s += thread_time() - begun_s

    def _masked(self, text: str, values: _TextRules) -> Any:
        for rule in values.rules:
            if rule.value.search(text) is None:
                continue
            if rule.action is MaskAction.DROP:
                self.count += 1
                return DROPPED
            text, replaced = rule.value.subn(self._hash_match if rule.action is MaskAction.HASH else REDACTED, text)
            self.count += replaced
        return text

    def _replaced(self, action: MaskAction, value: Any) -> Any:
        if action is MaskAction.DROP:
            return DROPPED
        if action is MaskAction.REDACT:
            return REDACTED
        return self._hash(value if isinstance(value, str) else orjson.dumps(value).decode())

    def _hash_match(self, match: Any) -> str:
        return self._hash(match.group(0))

    def _hash(self, text: str) -> str:
        return HASH_PREFIX + hmac.digest(self._hash_key, text.encode(), "sha256").hex()[:HASH_DIGITS]

    def _of(self, place: MaskPlace, path: str) -> _Found:
        """Return what the rules say about a path, remembered because paths repeat in every span."""
        found = self._found.get((place, path))
        if found is None:
            if len(self._found) >= KNOWN_PATHS_MAX:
                self._found.clear()
            found = self._found[place, path] = self._look_up(place, path)
        return found

    def _look_up(self, place: MaskPlace, path: str) -> _Found:
        above = _with_paths_above(path)
        fitting = [rule for rule in self._rules[place] if rule.key is None or any(map(rule.key.fullmatch, above))]
        action = next((rule.action for rule in fitting if rule.value is None), None)
        return _Found(action, self._together([rule for rule in fitting if rule.value is not None]))

    def _together(self, rules: Sequence[_Rule]) -> _TextRules:
        """Return these rules about text, the same object for the same rules."""
        key = tuple(map(id, rules))
        if key not in self._text_rules:
            self._text_rules[key] = _TextRules(rules)
        return self._text_rules[key]


def _with_paths_above(path: str) -> list[str]:
    """Return the path, and every path whose value holds it: keys with dots are paths too."""
    parts = path.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _json_in(text: str) -> Any:
    """Return the object, array or text that a text is as JSON; ``None`` if it is none."""
    begin = text[:1]
    if begin not in _JSON_BEGINS:
        begin = text.lstrip()[:1]
    if not begin or begin not in _JSON_BEGINS or len(text) < 2:
        return None
    try:
        inner = orjson.loads(text)
    except ValueError:
        return None
    return inner or None
