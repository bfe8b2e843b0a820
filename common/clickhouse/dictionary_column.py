"""A column of few distinct values while it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa

_NOTHING: Final = object()


class DictionaryColumn:
    """A column of few distinct values: each is rendered once for a chunk, rows hold its index."""

    def __init__(self) -> None:
        self._indexes: list[int] = []
        self._index_of_text: dict[bytes, int] = {}

    def extend(self, values: Iterable[Any], render: Callable[[Any], bytes]) -> None:
        """Append one row for each value; equal neighbors that are the same object are rendered once."""
        last: object = _NOTHING
        index = 0
        for value in values:
            if value is not last:
                last = value
                index = self._index_of_text.setdefault(render(value), len(self._index_of_text))
            self._indexes.append(index)

    def array(self) -> pa.DictionaryArray:
        """Return the column, dictionary-encoded like the engine's ``LowCardinality``."""
        texts = pa.array(list(self._index_of_text), pa.binary())
        return pa.DictionaryArray.from_arrays(pa.array(self._indexes, pa.int32()), texts)
