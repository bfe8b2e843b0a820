"""Columns of an answer of the engine as Python lists, and lists as values of a statement: whole columns at a time.

Arrow makes an object a value where a column is of fixed size, a third of a microsecond each: a page of traces is ten
thousand ids. NumPy cuts the same memory twenty times as fast.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

ID_BYTES: Final = 16

Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
"""Which rows are meant."""

Row = TypeVar("Row", bound=tuple[Any, ...])


def values_of(rows: pa.Table, name: str) -> list[Any]:
    """The column, in the order of the rows."""
    column = rows.column(name)
    if pa.types.is_fixed_size_binary(column.type):
        return split_ids(id_bytes(rows, name))
    values: list[Any] = column.to_pylist()
    return values


def holds_only(rows: pa.Table, name: str, blank: bytes | int | None) -> bool:
    """Whether all rows hold null, the empty text or zero, whichever ``blank`` is; told without looking at each, and
    false where it cannot be told so."""
    column = rows.column(name)
    if blank is None or column.null_count:
        return blank is None and column.null_count == len(column)
    if blank == 0:
        return not column.to_numpy().any()
    return not any(chunk.buffers()[-1] for chunk in column.chunks)


def rows_as(kind: type[Row], *columns: Iterable[Any]) -> list[Row]:
    """Rows of these columns, which are of one length, as a named tuple each; a third of what it takes to call the
    type."""
    return list(map(tuple.__new__, repeat(kind), zip(*columns, strict=True)))


def id_bytes(rows: pa.Table, name: str) -> bytes:
    """The ids of a column, one behind the other."""
    return b"".join(_id_bytes(chunk) for chunk in rows.column(name).chunks)


def split_ids(joined: bytes) -> list[bytes]:
    """The ids that stand one behind the other."""
    ids: list[bytes] = np.frombuffer(joined, f"V{ID_BYTES}").tolist()  # not S16: that drops zeros at the end
    return ids


def integers_of(rows: pa.Table, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A column of integers."""
    integers: np.ndarray[Any, np.dtype[np.int64]] = rows.column(name).to_numpy().astype(np.int64, copy=False)
    return integers


def among_ids(name: str) -> str:
    """The right side of ``IN`` for the ids of a parameter that ``packed_ids`` made.

    A constant to the engine: it uses an index for one, as for a subquery, and plans it a tenth quicker; a list that a
    function of functions makes it neither folds nor looks up."""
    return f"reinterpret(unhex({{{name}:String}}), 'Array(FixedString({ID_BYTES}))')"


def among_starts(name: str) -> str:
    """The right side of ``IN`` for the starts of a parameter that ``packed_starts`` made; the primary key prunes by
    it."""
    return f"reinterpret(unhex({{{name}:String}}), 'Array(Int64)')"


@dataclass(frozen=True, slots=True)
class HexDigits:
    """Bytes as the value of a parameter, written as hexadecimal digits.

    No ``str``: the driver looks at each character of one for what is to be escaped, 2 ms for the 500 spans of a page.
    """

    packed: bytes

    def __str__(self) -> str:
        return self.packed.hex()


def packed_ids(ids: Collection[bytes]) -> HexDigits:
    """Ids as the value of a parameter, one behind the other."""
    return HexDigits(b"".join(ids))


def packed_starts(starts_us: Collection[int]) -> HexDigits:
    """Microseconds as the value of a parameter: eight bytes each, the lowest first."""
    return HexDigits(struct.pack(f"<{len(starts_us)}q", *starts_us))


def ids_as_packed(rows: pa.Table, name: str, which: Flags) -> HexDigits:
    """Those of a column of ids, as ``packed_ids`` of them."""
    return HexDigits(np.frombuffer(id_bytes(rows, name), f"V{ID_BYTES}")[which].tobytes())


def starts_as_packed(rows: pa.Table, name: str, which: Flags) -> HexDigits:
    """Those of a column of microseconds, as ``packed_starts`` of them."""
    return HexDigits(integers_of(rows, name)[which].astype("<i8", copy=False).tobytes())


def _id_bytes(chunk: pa.Array) -> bytes:
    if not len(chunk):
        return b""
    values = chunk.buffers()[1]
    return values[chunk.offset * ID_BYTES : (chunk.offset + len(chunk)) * ID_BYTES].to_pybytes()  # type: ignore[no-any-return] # pyarrow ships no types
