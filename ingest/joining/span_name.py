"""What names a span in statements about several spans (``common/clickhouse/queries.sql``)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa

from common.ids import shown_span_id
from ingest.joining.stored_spans import PROJECT


class SpanName(NamedTuple):
    """What names a span: its project, its trace and its id."""

    project_id: UUID
    trace_id: bytes
    span_id: bytes

    @property
    def shown(self) -> SpanName:
        """The name that responses show, and by which ``span_events`` names the span."""
        return self._replace(span_id=shown_span_id(self.span_id))


def names_in(rows: pa.Table, ids: Sequence[str] = ("trace_id", "span_id")) -> list[SpanName]:
    """Return the span that each row of the engine is about; ``ids`` are the columns of its ids."""
    projects = (UUID(project.decode()) for project in rows.column(PROJECT).to_pylist())
    return list(map(SpanName, projects, *(rows.column(name).to_pylist() for name in ids)))


def named(names: Collection[SpanName]) -> dict[str, Any]:
    """Return the parameters of a statement about these spans; it may return spans of the same ids of other projects."""
    return {
        "project_ids": list(map(str, {name.project_id for name in names})),
        "trace_ids": b"".join({name.trace_id for name in names}),
        "names": b"".join({name.trace_id + name.span_id for name in names}),
    }
