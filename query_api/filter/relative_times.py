"""Relative times in a filter: ``now`` and ``-15m`` in conditions on time fields (contract §3.5).

``parse`` leaves them in the tree as ``RelativeTime``, so that a cursor can be bound to the text. They are resolved
before the tree is compiled (``sql/compile.py``) or interpreted (``matches.py``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from common.times import RelativeTime
from query_api.filter.language import FIELDS, Condition, Kind, Node


def has_relative_time(node: Node) -> bool:
    """Return whether a filter depends on the time at which it is resolved."""
    if isinstance(node, Condition):
        return any(isinstance(value, RelativeTime) for value in _times(node))
    return any(map(has_relative_time, node.members))


def resolve_times(node: Node, *, now_us: int) -> Node:
    """Return the filter with absolute times; ``now_us`` is in microseconds since 1970."""
    if not has_relative_time(node):
        return node
    if not isinstance(node, Condition):
        return replace(node, members=tuple(resolve_times(member, now_us=now_us) for member in node.members))
    resolved = [value.at_us(now_us) if isinstance(value, RelativeTime) else value for value in _times(node)]
    return replace(node, operand=resolved if isinstance(node.operand, list) else resolved[0])


def _times(condition: Condition) -> list[Any]:
    operand: Any = condition.operand
    if FIELDS[condition.field].kind is not Kind.TIME:
        return []
    return operand if isinstance(operand, list) else [operand]
