"""Filters with many values: read and compiled in a thread, because that takes up to 80 ms of Python (ADR 0014)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from common.threads import in_thread
from query_api.filter.ast import Condition, Node
from query_api.filter.models import ConditionModel, FilteringModel
from query_api.filter.parse import parse
from query_api.filter.sql.compile import Compiled, compile_filter

LARGE: Final = 1_000
"""Values, or words: about 8 ms. A thread costs 0.1 ms more."""

_WORD_CHARS: Final = 10


async def parse_filter(filtering: FilteringModel | None, *, path: str = "filtering") -> Node:
    """Return ``parse(filtering, path=path)``; raises what it raises."""
    if filtering is None or _size_of_model(filtering) < LARGE:
        return parse(filtering, path=path)
    return await in_thread(parse, filtering, path=path)


async def compile_node(node: Node) -> Compiled:
    """Return ``compile_filter(node)``; raises what it raises."""
    return compile_filter(node) if _size_of_node(node) < LARGE else await in_thread(compile_filter, node)


def _size_of_model(model: FilteringModel | ConditionModel) -> int:
    if isinstance(model, ConditionModel):
        return _size_of_value(model.value)
    return sum(map(_size_of_model, model.conditions))


def _size_of_node(node: Node) -> int:
    return _size_of_value(node.operand) if isinstance(node, Condition) else sum(map(_size_of_node, node.members))


def _size_of_value(value: Any) -> int:
    """How many values, or words, a condition looks for, about."""
    if isinstance(value, str):
        return 1 + len(value) // _WORD_CHARS
    return len(value) if isinstance(value, Sequence) else 1
