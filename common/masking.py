"""Masking: the rules of a project, and what they do to one value (contract §9, ADR 0021).

A rule names an attribute by a pattern of its dotted path (``key``), finds text by a regular expression of RE2
(``value``), or does both: then it finds text only below that key. ``redact`` and ``hash`` replace, ``drop`` removes. A
key that masks an object masks everything in it. Text that is JSON is read as JSON: instrumentations send conversations
as JSON inside of a text. Whatever changes is written again.

Pure. Which parts of a span are masked, and how that is made cheap: ``ingest/masking``.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from enum import StrEnum
from time import thread_time
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from common.json_like import GONE, edited
from common.json_tokens import JSON_STARTS, json_in, may_hold_keys, repeats_keys
from common.mask_keys import KeyPatterns
from common.mask_texts import TextRule, TextRules, compile_value
from common.nesting import has_long_paths

REDACTED: Final = "[masked]"
HASH_PREFIX: Final = "hash:"
HASH_DIGITS: Final = 32

DEPTH_MAX: Final = 64
"""Levels of objects, arrays and JSON inside of text that are examined; what is deeper is redacted as a whole."""

SEARCH_S_MAX: Final = 3.0
"""Processor time that the patterns of a project may take in one chunk of records; what is left is redacted as a
whole. The usual cost is a hundredth; one project must not slow down its neighbors."""

EDIT_S_MAX: Final = 3.0
"""Processor time that texts which are only like JSON may take in one chunk, 1 s for each MB: those in which a name of a
key rule occurs, and, where a project has expressions, those that begin like JSON. Further ones are redacted as a whole.
"""

KNOWN_PATHS_MAX: Final = 20_000
TEXT_RULES_MAX: Final = 1_000


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


def unpack(masks: MaskSet) -> Mapping[UUID, ProjectRules]:
    """Return the rules of each project."""
    members = orjson.loads(masks.text or b"{}")
    return {UUID(project): _rules_of(packed) for project, packed in members.items()}


def _rules_of(packed: Mapping[str, Any]) -> ProjectRules:
    rules = tuple(
        MaskRule(
            MaskAction(rule["action"]), rule["key"], rule["value"], tuple(MaskPlace(place) for place in rule["places"])
        )
        for rule in packed["rules"]
    )
    return ProjectRules(rules, bytes.fromhex(packed["hash_key"]))


class _Rule(NamedTuple):
    """A rule; what it says about text is ready for use."""

    key: str | None
    action: MaskAction
    text: TextRule | None


class _PlaceRules:
    """The rules that examine one place."""

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self.rules = rules
        self.without_key = [rule.text for rule in rules if rule.key is None and rule.text is not None]
        self.keys = KeyPatterns([rule.key for rule in rules if rule.key is not None])
        self._with_key = [position for position, rule in enumerate(rules) if rule.key is not None]
        self.has_keys = bool(self._with_key)

    def fitting(self, path: str) -> Sequence[_Rule]:
        """Return the rules that concern a path: those without a key, and those whose key fits it or a path above."""
        fitting = {self._with_key[found] for found in self.keys.fitting(path)}
        return [rule for position, rule in enumerate(self.rules) if rule.key is None or position in fitting]


class _Found(NamedTuple):
    """What the rules say about a path: the action of the first rule that masks all of it, and those about text."""

    action: MaskAction | None
    values: TextRules


DROPPED: Final = GONE
"""Stands for a value that is gone."""


class Mask:
    """The rules of one project. Not for two threads at once. ``count`` is how many values were masked so far."""

    def __init__(self, rules: ProjectRules) -> None:
        self.count = 0
        self._searched_s = 0.0
        self._edited_s = 0.0
        self._hash_key = rules.hash_key
        compiled = [
            (
                rule.places or tuple(MaskPlace),
                _Rule(
                    rule.key,
                    rule.action,
                    None if rule.value is None else TextRule(rule.action, compile_value(rule.value)),
                ),
            )
            for rule in rules.rules
        ]
        self._rules = {
            place: _PlaceRules([rule for places, rule in compiled if place in places]) for place in MaskPlace
        }
        self._text_rules: dict[tuple[int, ...], TextRules] = {}
        self._without_key = {place: self._together(rules.without_key) for place, rules in self._rules.items()}
        self._anywhere = self._together(
            [rule.text for _, rule in compiled if rule.key is None and rule.text is not None]
        )
        self._found: dict[tuple[MaskPlace, str], _Found] = {}

    def begin(self) -> None:
        """Begin a chunk of records: the time of its expressions counts from here."""
        self._searched_s = 0.0
        self._edited_s = 0.0

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
        if not self._rules[place].rules or not attributes:
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

    def _text(self, place: MaskPlace, path: str, text: str, values: TextRules, depth: int) -> Any:
        """Return a text with masked values in what is JSON or like it, and then without what rules find in it."""
        if may_hold_keys(text):
            kept = self._inside(place, path, text, values, depth)
            if kept is DROPPED:
                return DROPPED
            text = kept
        return self._plain(text, values)

    def _inside(self, place: MaskPlace, path: str, text: str, values: TextRules, depth: int) -> Any:
        """Return a text with masked values in the JSON that it is or holds."""
        is_reached = self._is_reached(place, path, text)
        inner = json_in(text)
        if inner is None or (is_reached and repeats_keys(text)):
            if not is_reached and not (values.rules and text[:1] in JSON_STARTS):
                return text
            return self._edited(place, path, text, depth)
        if depth >= DEPTH_MAX or (isinstance(inner, dict | list) and has_long_paths(path, inner)):
            self.count += 1
            return orjson.dumps(REDACTED).decode()
        if isinstance(inner, str):
            kept = self._text(place, path, inner, values, depth + 1)
        else:
            kept = (self._members if isinstance(inner, dict) else self._elements)(place, path, inner, depth + 1)
        return text if kept is inner else kept if kept is DROPPED else orjson.dumps(kept).decode()

    def _edited(self, place: MaskPlace, path: str, text: str, depth: int) -> Any:
        """Return a text that cannot be parsed, with the values after masked keys replaced."""
        if depth >= DEPTH_MAX or self._edited_s > EDIT_S_MAX:
            self.count += 1
            return REDACTED
        before_s, begun_s = self._edited_s, thread_time()
        try:
            return edited(text, path, _Editor(self, place, depth), levels_max=DEPTH_MAX - depth)
        finally:
            self._edited_s = before_s + thread_time() - begun_s

    def _is_reached(self, place: MaskPlace, path: str, text: str) -> bool:
        """Return whether a rule with a key may concern something in a text at this path."""
        rules = self._rules[place]
        if not rules.has_keys or self._is_time_over:
            return rules.has_keys
        begun_s = thread_time()
        finder = rules.keys.finder_below(path)
        self._searched_s += thread_time() - begun_s
        return finder is not None and finder.search(text) is not None

    def _plain(self, text: str, values: TextRules) -> Any:
        if values.knows(text):
            return text
        if self._is_time_over or values.is_too_costly(text):
            self.count += 1
            return REDACTED
        begun_s = thread_time()
        try:
            return text if values.find_nothing(text) else self._masked(text, values)
        finally:
            self._searched_s += thread_time() - begun_s

    @property
    def _is_time_over(self) -> bool:
        return self._searched_s > SEARCH_S_MAX

    def _masked(self, text: str, values: TextRules) -> Any:
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
        if found is None and self._is_time_over and self._rules[place].has_keys:
            return _Found(MaskAction.REDACT, self._together([]))
        if found is None:
            if len(self._found) >= KNOWN_PATHS_MAX:
                self._found.clear()
            found = self._found[place, path] = self._look_up(place, path)
        return found

    def _look_up(self, place: MaskPlace, path: str) -> _Found:
        rules = self._rules[place]
        if not rules.has_keys:
            return _Found(None, self._without_key[place])
        begun_s = thread_time()
        fitting = rules.fitting(path)
        self._searched_s += thread_time() - begun_s
        action = next((rule.action for rule in fitting if rule.text is None), None)
        return _Found(action, self._together([rule.text for rule in fitting if rule.text is not None]))

    def _together(self, rules: Sequence[TextRule]) -> TextRules:
        """Return these rules about text, the same object for the same rules."""
        key = tuple(map(id, rules))
        if key not in self._text_rules:
            if len(self._text_rules) >= TEXT_RULES_MAX:
                self._text_rules.clear()
            self._text_rules[key] = TextRules(rules)
        return self._text_rules[key]


class _Editor:
    """Masks values in a text that cannot be parsed."""

    def __init__(self, mask: Mask, place: MaskPlace, depth: int) -> None:
        self._mask = mask
        self._place = place
        self._depth = depth

    def replaces_whole(self, path: str, /) -> bool:
        return self._mask._of(self._place, path).action is not None

    def replacement_of(self, path: str, value: Any, /) -> Any:
        return self._mask._value(self._place, path, value, self._depth)

    def too_deep(self) -> str:
        self._mask.count += 1
        return REDACTED

    def edited_text(self, path: str, text: str, /) -> Any:
        return self._mask._text(self._place, path, text, self._mask._of(self._place, path).values, self._depth + 1)

    def edited_key(self, path: str, key: str, /) -> Any:
        shown = self._mask.key(self._place, path, key)
        return DROPPED if shown is None else shown
