"""The mask of a project, with a plan for each key of attributes (ADR 0021).

Most rules concern few keys and find nothing, so most values need no more than a proof that they stay as they are
(``checks.py``). What a key needs follows from its path alone and is planned once. A mask has the same results as
``common.masking.Mask``, which masks whatever a check does not clear.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from time import thread_time
from typing import Any, Final, NamedTuple
from uuid import UUID

from common.json_tokens import may_hold_keys
from common.mask_texts import TextRules
from common.masking import DROPPED, Mask, MaskAction, MaskPlace, MaskSet, ProjectRules, unpack
from ingest.masking.checks import Check, NameCheck, TextCheck

PLANS_MAX: Final = 4_096
"""Keys of a project that have a plan; when there are more, all are forgotten."""

PLANNED_CHARACTERS_MAX: Final = 200
CHECKS_MAX: Final = 128
LEVELS_KEPT_MAX: Final = 128


class _Plan(NamedTuple):
    """What happens to the value of a key: ``action`` masks all of it; else it stays if all ``checks`` clear it.

    ``checks`` are empty if no rule concerns the value, and ``None`` if none can clear it: it is masked step by step.
    """

    action: MaskAction | None = None
    checks: tuple[Check, ...] | None = None


_STEP_BY_STEP: Final = _Plan()


class _Level:
    """The plans of the keys below one path, in one place.

    ``usual`` are the keys that no rule names, ``usual_plan`` is what they all need.
    """

    def __init__(self, place: MaskPlace, path: str, usual_plan: _Plan) -> None:
        self.place = place
        self.path = path
        self.usual_plan = usual_plan
        self.usual: set[str] = set()
        self.plans: dict[str, _Plan] = {}

    def path_of(self, key: str) -> str:
        """Return the path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def remember(self, key: str, plan: _Plan) -> None:
        """Keep the plan of a key."""
        self.plans[key] = plan
        if plan is self.usual_plan and plan.checks is not None:
            self.usual.add(key)

    def forget(self) -> None:
        """Forget all plans."""
        self.usual.clear()
        self.plans.clear()


class PlannedMask(Mask):
    """The rules of one project, planned. Not for two threads at once."""

    def __init__(self, rules: ProjectRules) -> None:
        super().__init__(rules)
        self.rules = rules
        self._text_checks: dict[TextRules, TextCheck] = {}
        self._plans: dict[tuple[TextRules, frozenset[str]], _Plan] = {}
        self._levels: dict[tuple[MaskPlace, str], _Level] = {}
        self._planned_count = 0
        self._bare = {place: self._text_check(values) for place, values in self._without_key.items()}

    def begin(self) -> None:
        """Begin a chunk of records: forget the texts of the last one."""
        super().begin()
        for check in chain(self._text_checks.values(), filter(None, self._bare.values())):
            check.forget()

    def text(self, place: MaskPlace, text: str) -> str | None:
        """Return a text that has no key, such as a name; ``None`` if it is dropped."""
        check = self._bare[place]
        if may_hold_keys(text) and self._rules[place].has_keys:  # a key may name a member of the JSON
            return super().text(place, text)
        if check is None or check.knows(text) or (not self._is_time_over and check.clears((text,))):
            return text
        return super().text(place, text)

    def attributes(self, place: MaskPlace, attributes: dict[str, Any], prefix: str = "") -> dict[str, Any]:
        """Return attributes, flat or nested; the same object if nothing is masked. ``prefix`` is the path to them."""
        if not attributes or not self._rules[place].rules:
            return attributes
        if self._is_time_over:
            return super().attributes(place, attributes, prefix)
        level = self._level(place, prefix)
        if level.usual.issuperset(attributes) and _clears(level.usual_plan, attributes.values()):
            return attributes
        return self._by_plans(level, attributes)

    def leaves(self, place: MaskPlace, path: str, members: dict[str, Any]) -> bool:
        """Return whether the values of these members of the object at ``path`` surely stay as they are."""
        if self._is_time_over:
            return False
        level = self._level(place, path)
        if level.usual.issuperset(members):
            return _clears(level.usual_plan, members.values())
        return all(_clears(self._plan(level, key), (value,)) for key, value in members.items())

    def _by_plans(self, level: _Level, members: dict[str, Any]) -> dict[str, Any]:
        unusual = [key for key in members if key not in level.usual]
        usual = [value for key, value in members.items() if key in level.usual]
        changed = {}
        for key in unusual if _clears(level.usual_plan, usual) else members:
            value, plan = members[key], self._plan(level, key)
            if not _clears(plan, (value,)):
                shown, kept = self._member(level, key, value, plan)
                if kept is not value or shown != key:
                    changed[key] = shown, kept
        return _with_changes(members, changed) if changed else members

    def _member(self, level: _Level, key: str, value: Any, plan: _Plan) -> tuple[str | None, Any]:
        """Return what becomes of a key and of its value."""
        if plan.action is not None:
            self.count += 1
            return key, self._replaced(plan.action, value)
        path = level.path_of(key)
        kept = self._value(level.place, path, value, 0)
        return key if kept is DROPPED else self.key(level.place, path, key), kept

    def _plan(self, level: _Level, key: str) -> _Plan:
        plan = level.plans.get(key)
        if plan is not None:
            return plan
        plan = self._made(level, key)
        if len(key) <= PLANNED_CHARACTERS_MAX and not self._is_time_over:
            if self._planned_count >= PLANS_MAX:
                self._planned_count = 0
                for each in self._levels.values():
                    each.forget()
            self._planned_count += 1
            level.remember(key, plan)
        return plan

    def _made(self, level: _Level, key: str) -> _Plan:
        path = level.path_of(key)
        found = self._look_up(level.place, path)
        if not path or not self._is_clean(key, found.values):  # below an empty key, paths begin anew
            return _STEP_BY_STEP
        if found.action is not None:
            return _Plan(found.action)
        return self._plan_of(found.values, self._names_below(level.place, path))

    def _names_below(self, place: MaskPlace, path: str) -> frozenset[str] | None:
        rules = self._rules[place]
        if not rules.has_keys:
            return frozenset()
        begun_s = thread_time()
        names = rules.keys.names_below(path)
        self._searched_s += thread_time() - begun_s
        return names

    def _plan_of(self, values: TextRules, names: frozenset[str] | None) -> _Plan:
        """Return the plan for these rules about text and these names in keys, the same object for the same ones."""
        if names is None:
            return _STEP_BY_STEP
        key = (values, names)
        if key not in self._plans:
            if len(self._plans) >= CHECKS_MAX:
                self._plans.clear()
            checks = (NameCheck(names) if names else None, self._text_check(values))
            self._plans[key] = _Plan(checks=tuple(check for check in checks if check is not None))
        return self._plans[key]

    def _text_check(self, values: TextRules) -> TextCheck | None:
        if not values.rules:
            return None
        check = self._text_checks.get(values)
        if check is None:
            if len(self._text_checks) >= CHECKS_MAX:
                self._text_checks.clear()
            check = self._text_checks[values] = TextCheck(values, self._surely_find_nothing)
        return check

    def _level(self, place: MaskPlace, path: str) -> _Level:
        level = self._levels.get((place, path))
        if level is None:
            rules = self._rules[place]
            if path:
                found = self._look_up(place, path)
                plan = self._plan_of(found.values, rules.keys.names_everywhere(path)) if found.action is None else None
            else:
                plan = self._plan_of(self._without_key[place], rules.keys.names_everywhere(path))
            if len(self._levels) >= LEVELS_KEPT_MAX:
                self._levels.clear()
            level = self._levels[(place, path)] = _Level(place, path, plan or _STEP_BY_STEP)
        return level

    def _is_clean(self, text: str, values: TextRules) -> bool:
        """Return whether no rule finds anything in a text; ``False`` if it may not be searched."""
        if values.knows(text):
            return True
        if self._is_time_over or values.is_too_costly(text):
            return False
        begun_s = thread_time()
        try:
            return values.find_nothing(text)
        finally:
            self._searched_s += thread_time() - begun_s

    def _surely_find_nothing(self, values: TextRules, texts: Sequence[str]) -> bool:
        if self._is_time_over:
            return False
        begun_s = thread_time()
        try:
            return values.surely_find_nothing(texts)
        finally:
            self._searched_s += thread_time() - begun_s


def _clears(plan: _Plan, values: Collection[Any]) -> bool:
    checks = plan.checks
    return checks is not None and (not checks or all(check.clears(values) for check in checks))


def _with_changes(members: dict[str, Any], changed: Mapping[str, tuple[str | None, Any]]) -> dict[str, Any]:
    """Return the members with these keys and values instead, in their order; those without a key are left out."""
    masked = dict(members)
    for key, (shown, kept) in changed.items():
        if shown != key or kept is DROPPED:
            break
        masked[key] = kept
    else:
        return masked
    pairs = (changed.get(key, (key, value)) for key, value in members.items())
    return {key: value for key, value in pairs if key is not None and value is not DROPPED}


@lru_cache(maxsize=2)
def planned_masks(masks: MaskSet) -> Mapping[UUID, PlannedMask]:
    """Return the mask of each project; those whose rules did not change are the same objects as before."""
    before, rules = dict(_planned), unpack(masks)
    _planned.clear()
    for project, rules_of_project in rules.items():
        known = before.get(project)
        is_known = known is not None and known.rules == rules_of_project
        _planned[project] = known if is_known and known is not None else PlannedMask(rules_of_project)
    return dict(_planned)


_planned: Final[dict[UUID, PlannedMask]] = {}
