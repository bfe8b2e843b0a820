"""Arrow arrays as NumPy arrays, without copies, and what several modules compute with them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Numbers: TypeAlias = np.ndarray[Any, Any]


def numbers_of(array: pa.Array, kind: Any) -> Numbers:
    """Return the numbers of an array without copying them; what stands at nulls is undefined."""
    size = np.dtype(kind).itemsize
    content = array.buffers()[1]
    if content is None or not len(array):
        return np.zeros(0, kind)
    return np.frombuffer(content, kind, len(array), array.offset * size)


def numbers_or_zeros(array: pa.Array, kind: Any) -> Numbers:
    """Return the numbers of an array, 0 at nulls."""
    if array.null_count == len(array):
        return np.zeros(len(array), kind)
    numbers = numbers_of(array, kind)
    return np.where(is_set(array), numbers, np.zeros(1, kind)) if array.null_count else numbers


def without_nulls(texts: pa.Array) -> pa.Array:
    """Return texts with ``""`` at nulls, where the parser left no bytes."""
    if not texts.null_count:
        return texts
    _, *content = texts.buffers()
    return pa.Array.from_buffers(texts.type, len(texts), [None, *content], offset=texts.offset)


def offsets_of(array: pa.Array) -> Numbers:
    """Return where the elements of a list, or the bytes of a text, begin and end."""
    content = array.buffers()[1]
    if content is None or not len(array):
        return np.zeros(1, np.int32)
    return np.frombuffer(content, np.int32, len(array) + 1, array.offset * 4)


def lengths_of(array: pa.Array) -> Numbers:
    """Return how many elements each list, or bytes each text, has."""
    return np.diff(offsets_of(array)).astype(np.int64)


def is_set(array: pa.Array) -> Numbers:
    """Return which elements are not null."""
    if array.null_count in (0, len(array)):
        return np.full(len(array), not array.null_count)
    flags: Numbers = array.is_valid().to_numpy(zero_copy_only=False)
    return flags


def holders(texts: pa.Array, is_found: Numbers) -> Numbers:
    """Return the indexes of texts one of whose bytes is found; ``is_found`` is about ``bytes_of(texts)``."""
    found = np.flatnonzero(is_found)
    if not len(found):
        return found
    offsets = offsets_of(texts)
    return np.unique(np.searchsorted(offsets, found + offsets[0], "right") - 1)


def bytes_of(texts: pa.Array) -> Numbers:
    """Return the bytes of all texts, one after the other."""
    content = texts.buffers()[2]
    offsets = offsets_of(texts)
    return np.frombuffer(content or b"", np.uint8)[offsets[0] : offsets[-1]]


def sums_between(numbers: Numbers, offsets: Numbers) -> Numbers:
    """Return the sum of the numbers between each two offsets."""
    sums = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(numbers, out=sums[1:])
    return sums[offsets[1:]] - sums[offsets[:-1]]


def ranges(starts: Numbers, counts: Numbers) -> Numbers:
    """Return the numbers from each start on, as many as its count, one after the other."""
    ends = np.cumsum(counts)
    numbers: Numbers = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
    return numbers


class TextPool:
    """Texts that others are joined from, each known by its index."""

    def __init__(self) -> None:
        self._parts: list[pa.Array] = []
        self._count = 0

    def add(self, texts: pa.Array) -> int:
        """Add texts; return the index of the first of them."""
        first = self._count
        self._parts.append(texts)
        self._count += len(texts)
        return first

    def at(self, indexes: Numbers) -> pa.Array:
        """Return the texts at these indexes."""
        return pa.concat_arrays(self._parts).take(pa.array(indexes))


def empty_maps(count: int) -> pa.MapArray:
    """Return as many maps of texts, all empty."""
    texts = pa.array([], pa.string())
    return pa.MapArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), texts, texts)
