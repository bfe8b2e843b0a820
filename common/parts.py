"""Sequences in parts: as much as one statement, or one insert, takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def parts_of(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Divide a sequence into parts of this many items."""
    return (items[begin : begin + size] for begin in range(0, len(items), size))


def parts_of_size(items: Iterable[Item], size: int, size_of: Callable[[Item], int]) -> Iterator[Sequence[Item]]:
    """Divide items into parts whose sizes add up to ``size`` at most; each has at least one item."""
    part: list[Item] = []
    total = 0
    for item in items:
        item_size = size_of(item)
        if part and total + item_size > size:
            yield part
            part, total = [], 0
        part.append(item)
        total += item_size
    if part:
        yield part
