"""Columns of a result as Python lists, and lists as parameters of a statement: whole columns at a time.

Arrow makes a Python object for each value of a fixed size, a third of a microsecond each, and a page of traces has
ten thousand ids. NumPy cuts the same memory twenty times as fast.
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
"""One flag for each row."""

Row = TypeVar("Row", bound=tuple[Any, ...])


def values_of(rows: pa.Table, name: str) -> list[Any]:
    """Return the column as a list."""
    column = rows.column(name)
    if pa.types.is_fixed_size_binary(column.type):
        return split_ids(id_bytes(rows, name))
    values: list[Any] = column.to_pylist()
    return values


def holds_only(rows: pa.Table, name: str, blank: bytes | int | None) -> bool:
    """Whether all rows hold ``blank``: null, the empty text or zero.

    Decided without looking at each row; ``False`` if that is not possible.
    """
    column = rows.column(name)
    if blank is None or column.null_count:
        return blank is None and column.null_count == len(column)
    if blank == 0:
        return not column.to_numpy().any()
    return not any(chunk.buffers()[-1] for chunk in column.chunks)


def rows_as(kind: type[Row], *columns: Iterable[Any]) -> list[Row]:
    """Return rows of parallel columns as named tuples; takes a third of the time of calling the type."""
    return list(map(tuple.__new__, repeat(kind), zip(*columns, strict=True)))


def id_bytes(rows: pa.Table, name: str) -> bytes:
    """Return the ids of a column, concatenated."""
    return b"".join(_id_bytes(chunk) for chunk in rows.column(name).chunks)


def split_ids(joined: bytes) -> list[bytes]:
    """Split concatenated ids."""
    ids: list[bytes] = np.frombuffer(joined, f"V{ID_BYTES}").tolist()  # not S16: that drops zeros at the end
    return ids


def integers_of(rows: pa.Table, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return a column of integers."""
    integers: np.ndarray[Any, np.dtype[np.int64]] = rows.column(name).to_numpy().astype(np.int64, copy=False)
    return integers


def among_ids(name: str) -> str:
    """Return the right side of ``IN`` for a parameter that ``packed_ids`` made.

    It is a constant for the engine, which uses an index for it as for a subquery, and plans it a tenth faster. A list
    that is made by nested functions is neither folded nor looked up.
    """
    return f"reinterpret(unhex({{{name}:String}}), 'Array(FixedString({ID_BYTES}))')"


def among_starts(name: str) -> str:
    """Return the right side of ``IN`` for a parameter that ``packed_starts`` made; the primary key prunes by it."""
    return f"reinterpret(unhex({{{name}:String}}), 'Array(Int64)')"


@dataclass(frozen=True, slots=True)
class HexDigits:
    """Bytes as the value of a parameter, written as hexadecimal digits.

    Not a ``str``: the driver escapes a ``str`` character by character, 2 ms for the 500 spans of a page.
    """

    packed: bytes

    def __str__(self) -> str:
        return self.packed.hex()


def packed_ids(ids: Collection[bytes]) -> HexDigits:
    """Return ids as the value of a parameter."""
    return HexDigits(b"".join(ids))


def packed_starts(starts_us: Collection[int]) -> HexDigits:
    """Return microseconds as the value of a parameter: eight bytes each, little-endian."""
    return HexDigits(struct.pack(f"<{len(starts_us)}q", *starts_us))


def ids_as_packed(rows: pa.Table, name: str, flags: Flags) -> HexDigits:
    """Return the flagged ids of a column as ``packed_ids`` does."""
    return HexDigits(np.frombuffer(id_bytes(rows, name), f"V{ID_BYTES}")[flags].tobytes())


def starts_as_packed(rows: pa.Table, name: str, flags: Flags) -> HexDigits:
    """Return the flagged microseconds of a column as ``packed_starts`` does."""
    return HexDigits(integers_of(rows, name)[flags].astype("<i8", copy=False).tobytes())


def _id_bytes(chunk: pa.Array) -> bytes:
    if not len(chunk):
        return b""
    values = chunk.buffers()[1]
    return values[chunk.offset * ID_BYTES : (chunk.offset + len(chunk)) * ID_BYTES].to_pybytes()  # type: ignore[no-any-return] # pyarrow ships no types
