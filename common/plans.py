"""Plans by keys: an instrumentation writes the same attribute keys with every span, so what follows from the keys is
computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeAlias, TypeVar, cast

Keys: TypeAlias = tuple[str, ...]
Plan = TypeVar("Plan")

SEEN_MAX: Final = 4_096
CHARACTERS_MAX: Final = 16_384
"""The largest set of keys that is cached, in characters. With the number of plans this bounds their memory, to about 20
MB for the most hostile keys.
"""


USUAL_COUNT: Final = 4
"""The number of spans with the same keys that is worth a plan, even if the keys are new."""


class Plans(Generic[Plan]):
    """Plans by keys in their order, at most ``max_count``; when there are more, all are forgotten. Thread-safe."""

    def __init__(self, make: Callable[[Keys], Plan], *, max_count: int) -> None:
        self._make = make
        self._max_count = max_count
        self._plans: dict[Keys, Plan] = {}
        self._seen_once: set[int] = set()

    def __len__(self) -> int:
        return len(self._plans)

    def of(self, keys: Keys) -> Plan:
        """Return the plan of these keys. It is kept when they come for the second time, so plans of random keys are
        never kept.
        """
        plan = self._plans.get(keys)
        if plan is not None or keys in self._plans:  # a plan may be None
            return cast(Plan, plan)
        made = self._make(keys)
        self._remember(keys, made)
        return made

    def of_usual(self, keys: Keys, *, count: int) -> Plan | None:
        """Return the plan of keys that come ``count`` times at once; ``None`` if they are so rare and new that making a
        plan costs more than doing without.
        """
        if count < USUAL_COUNT and keys not in self._plans and self._see(keys):
            return None
        return self.of(keys)

    def _see(self, keys: Keys) -> bool:
        """Note that these keys came; return whether they came for the first time."""
        mark = hash(keys)
        if mark in self._seen_once:
            return False
        if len(self._seen_once) >= SEEN_MAX:
            self._seen_once.clear()
        self._seen_once.add(mark)
        return True

    def _remember(self, keys: Keys, plan: Plan) -> None:
        if self._see(keys):
            return
        if sum(map(len, keys)) <= CHARACTERS_MAX:
            if len(self._plans) >= self._max_count:
                self._plans.clear()
            self._plans[keys] = plan
