"""The interface of every destination of spans: what it is given, what it promises.

A sink does not know Kafka offsets, stored positions or dead letters: the worker records the stored position once every
sink has stored a batch (``ingest/flush.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa


class SpanRows(NamedTuple):
    """Spans to store: one row per span, in the order of their records.

    ``columns`` are those of ``common/clickhouse/span_columns.py``: ids, times and enums as Arrow values, each other
    member as the JSON text that responses contain. ``leaves`` is an index over the attributes that only ClickHouse
    needs. ``token`` names the content: the same rows always come with the same token.
    """

    columns: pa.Table
    token: str


class RejectedRow(NamedTuple):
    """A row that the sink can never store, by its position in ``SpanRows.columns``, and the reason."""

    row: int
    reason: str


class Sink(Protocol):
    """A destination of spans."""

    @property
    def name(self) -> str:
        """The name under which ``/readyz`` reports that the sink is waited for."""
        ...

    async def write(self, spans: SpanRows, /) -> Sequence[RejectedRow]:
        """Return when every row is durable, except the returned ones.

        Calling it again with the same token is harmless. Raises transient errors; any other error is a defect and stops
        the worker without a commit.
        """
        ...
