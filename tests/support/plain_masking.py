"""Masking as its documentation says it, value by value and without any plan: what the product's is compared with."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import orjson
import re2

from common.json_like import edited
from common.json_tokens import JSON_STARTS, may_hold_keys, repeats_keys
from common.json_values import parsed_json
from common.mask_keys import KeyPatterns
from common.masking import DEPTH_MAX, DROPPED, REDACTED, MaskAction, MaskPlace, MaskRule, ProjectRules


class PlainMask:
    """The rules of one project, applied one after another to one value after another."""

    def __init__(self, rules: ProjectRules) -> None:
        self.rules = rules
        self.count = 0

    def begin(self) -> None:
        pass

    def leaves(self, *_: Any) -> bool:
        return False

    def text(self, place: MaskPlace, text: str) -> str | None:
        masked = self._text(place, "", text, self._about_text(place, None), 0)
        return None if masked is DROPPED else masked

    def text_anywhere(self, text: str) -> str | None:
        rules = [rule for rule in self.rules.rules if rule.key is None]
        masked = self._text(MaskPlace.ATTRIBUTES, "", text, rules, 0)
        return None if masked is DROPPED else masked

    def attributes(self, place: MaskPlace, attributes: dict[str, Any], prefix: str = "") -> dict[str, Any]:
        return _kept(attributes, self._object(place, prefix, attributes, 0)) if self._in(place) else attributes

    def member(self, place: MaskPlace, path: str, value: Any) -> Any:
        return _kept(value, self._value(place, path, value, 0))

    def key(self, place: MaskPlace, path: str, key: str) -> str | None:
        masked = self._searched(key, self._about_text(place, path))
        return None if masked is DROPPED else masked

    def _in(self, place: MaskPlace) -> list[MaskRule]:
        return [rule for rule in self.rules.rules if not rule.places or place in rule.places]

    def _about_text(self, place: MaskPlace, path: str | None) -> list[MaskRule]:
        return [rule for rule in self._in(place) if rule.value is not None and _concerns(rule, path)]

    def _value(self, place: MaskPlace, path: str, value: Any, depth: int) -> Any:
        for rule in self._in(place):
            if rule.value is None and _concerns(rule, path):
                self.count += 1
                return self._replaced(rule.action, value)
        about_text = self._about_text(place, path)
        if isinstance(value, str):
            return self._text(place, path, value, about_text, depth)
        if isinstance(value, dict | list) and value:
            if depth >= DEPTH_MAX:
                self.count += 1
                return REDACTED
            return (self._object if isinstance(value, dict) else self._array)(place, path, value, depth + 1)
        if isinstance(value, int | float) and not isinstance(value, bool):
            text = orjson.dumps(value).decode()
            masked = self._searched(text, about_text)
            return value if masked == text else masked
        return value

    def _object(self, place: MaskPlace, path: str, members: Any, depth: int) -> dict[str, Any]:
        masked = {}
        for key, value in members.items():
            below = f"{path}.{key}" if path else key
            kept = self._value(place, below, value, depth)
            if kept is not DROPPED and (name := self.key(place, below, key)) is not None:
                masked[name] = kept
        return masked

    def _array(self, place: MaskPlace, path: str, elements: Any, depth: int) -> list[Any]:
        masked = [self._value(place, f"{path}.{index}", element, depth) for index, element in enumerate(elements)]
        return [element for element in masked if element is not DROPPED]

    def _text(self, place: MaskPlace, path: str, text: str, rules: list[MaskRule], depth: int) -> Any:
        kept = self._inside(place, path, text, rules, depth) if may_hold_keys(text) else text
        return DROPPED if kept is DROPPED else self._searched(kept, rules)

    def _inside(self, place: MaskPlace, path: str, text: str, rules: list[MaskRule], depth: int) -> Any:
        """What a text is that is JSON, or like it."""
        inner, is_named = _json(text), self._names_occur(place, path, text)
        if not inner or (is_named and repeats_keys(text)):
            if not is_named and not (rules and text[:1] in JSON_STARTS):
                return text
            if depth >= DEPTH_MAX:
                self.count += 1
                return REDACTED
            return edited(text, path, _PlainEditor(self, place, depth), levels_max=DEPTH_MAX - depth)
        if depth >= DEPTH_MAX:
            kept: Any = REDACTED
        elif isinstance(inner, str):
            kept = self._text(place, path, inner, rules, depth + 1)
        else:
            kept = (self._object if isinstance(inner, dict) else self._array)(place, path, inner, depth + 1)
        if kept is DROPPED:
            return DROPPED
        return orjson.dumps(kept).decode() if _kept(inner, kept) is not inner else text

    def _names_occur(self, place: MaskPlace, path: str, text: str) -> bool:
        """Whether a text may hold a key that a rule names."""
        keys = KeyPatterns([rule.key for rule in self._in(place) if rule.key is not None])
        finder = keys.finder_below(path)
        return finder is not None and finder.search(text) is not None

    def _searched(self, text: str, rules: list[MaskRule]) -> Any:
        for rule in rules:
            expression = re2.compile(rule.value)
            if expression.search(text) is None:
                continue
            if rule.action is MaskAction.DROP:
                self.count += 1
                return DROPPED
            by_hash = rule.action is MaskAction.HASH
            replacement = (lambda match: self._hash(match.group(0))) if by_hash else REDACTED
            text, found = expression.subn(replacement, text)
            self.count += found
        return text

    def _replaced(self, action: MaskAction, value: Any) -> Any:
        if action is MaskAction.DROP:
            return DROPPED
        if action is MaskAction.REDACT:
            return REDACTED
        return self._hash(value if isinstance(value, str) else orjson.dumps(value).decode())

    def _hash(self, text: str) -> str:
        return "hash:" + hmac.new(self.rules.hash_key, text.encode(), hashlib.sha256).hexdigest()[:32]


def _kept(value: Any, masked: Any) -> Any:
    """The value itself if nothing was masked in it; as JSON, because 1 equals True and 1.0."""
    return value if masked is not DROPPED and json.dumps(masked) == json.dumps(value) else masked


def _concerns(rule: MaskRule, path: str | None) -> bool:
    """Whether a rule is about a path: it has no key, or its key matches the path or one above."""
    if rule.key is None or path is None:
        return rule.key is None
    segments = path.split(".")
    above = [".".join(segments[:count]) for count in range(1, len(segments) + 1)]
    expression = re2.compile("(?is)" + ".*".join(re2.escape(part) for part in rule.key.split("*")))
    return any(expression.fullmatch(each) is not None for each in above)


class _PlainEditor:
    """What becomes of values in text that cannot be parsed."""

    def __init__(self, mask: PlainMask, place: MaskPlace, depth: int) -> None:
        self._mask = mask
        self._place = place
        self._depth = depth

    def replaces_whole(self, path: str) -> bool:
        return any(rule.value is None and _concerns(rule, path) for rule in self._mask._in(self._place))

    def replacement_of(self, path: str, value: Any) -> Any:
        return self._mask._value(self._place, path, value, self._depth)

    def too_deep(self) -> str:
        self._mask.count += 1
        return REDACTED

    def edited_text(self, path: str, text: str) -> Any:
        rules = self._mask._about_text(self._place, path)
        return self._mask._text(self._place, path, text, rules, self._depth + 1)

    def edited_key(self, path: str, key: str) -> Any:
        shown = self._mask.key(self._place, path, key)
        return DROPPED if shown is None else shown


def _json(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return None
    try:
        return parsed_json(text)
    except ValueError:
        return None
