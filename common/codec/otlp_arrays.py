"""The spans of many OTLP records as columns: what ``otlp_columns`` reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from common.arrow_views import Numbers, numbers_or_zeros, offsets_of


@dataclass(frozen=True)
class AttributeArrays:
    """The attributes of all spans, one after the other; those of a span lie between two of ``offsets``.

    ``keys`` are indexes into ``names``, the distinct keys. ``kinds`` says which field of ``values`` is set.
    """

    offsets: Numbers
    keys: Numbers
    names: list[str]
    kinds: Numbers
    values: dict[int, pa.Array]


@dataclass(frozen=True)
class SpanArrays:
    """The spans of records that were read, in wire order.

    ``positions`` are those of the records among the values that were given; ``span_counts`` is parallel.
    ``resource_of`` and ``scope_of`` are, for each span, indexes into ``resources`` and ``scopes``: the bytes of the
    message, and its schema URL.
    """

    positions: Sequence[int]
    span_counts: Numbers
    fields: dict[str, pa.Array]
    attributes: AttributeArrays
    resource_of: Numbers
    scope_of: Numbers
    resources: Wrappers
    scopes: Wrappers

    @property
    def spans_count(self) -> int:
        """How many spans there are."""
        return len(self.scope_of)

    @cached_property
    def record_of(self) -> Numbers:
        """For each span the index of its record in ``positions``."""
        return np.repeat(np.arange(len(self.positions)), self.span_counts)

    def numbers(self, name: str, kind: Any) -> Numbers:
        """Return a field of all spans as numbers, 0 where it is absent."""
        return numbers_or_zeros(self.fields[name], kind)

    @property
    def status_codes(self) -> Numbers:
        """The code of the status of each span."""
        return numbers_or_zeros(self.fields["status"].field("code"), np.int32)

    def ids(self, name: str, size: int) -> Numbers:
        """Return a field of ids as a matrix of bytes; an id that is absent is all zeros."""
        array = self.fields[name]
        offsets = offsets_of(array)
        raw = np.frombuffer(array.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
        if len(raw) == size * len(array):
            return raw.reshape(-1, size)
        matrix = np.zeros((len(array), size), np.uint8)
        matrix[offsets[1:] > offsets[:-1]] = raw.reshape(-1, size)
        return matrix


@dataclass(frozen=True)
class Wrappers:
    """Resources or scopes: the bytes of each, and their schema URLs."""

    messages: pa.Array
    schema_urls: pa.Array

    def __getitem__(self, index: int) -> tuple[bytes, str]:
        return self.messages[index].as_py() or b"", self.schema_urls[index].as_py() or ""
