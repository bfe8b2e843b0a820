"""The rows of versions as they are now, when a later version may have replaced them since they were found.

A page takes several statements, and producers store new versions between them. A version that was replaced at its place by
one that matches too must not be lost, so each step that misses the row of a version looks at its place again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from query_api.spans.columns import among_ids, among_starts, values_of
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.tables import Table, read_from
from query_api.spans.version import Version, packed_versions, standing_in, versions_of

if TYPE_CHECKING:  # a filter may hold sums over traces, which need the rule of `latest_versions.py`, which needs this
    from query_api.filter.sql.compile import Compiled

_ROWS: Final = f"""
SELECT start_us, span_id, trace_id, partition_id, record_offset, answer_bytes, {{matching}} AS matches
{read_from(Table.SPANS, prewhere=[f"start_us IN {among_starts('starts')}", f"span_id IN {among_ids('span_ids')}"])}
"""


class CurrentRow(NamedTuple):
    """A row of ``spans``, and whether it matches a filter."""

    version: Version
    answer_bytes: int
    matches: bool


async def current_rows(
    spans: ProjectSpans, versions: Collection[Version], matching: Compiled, *, step: str
) -> Mapping[Version, CurrentRow]:
    """The row of each version, or the row that replaced it at its place; versions that have neither are left out."""
    if not versions:
        return {}
    values = {**matching.parameters, **packed_versions(versions)}
    rows = await spans.select(_ROWS.replace("{matching}", matching.sql), values, step=step)
    columns = (values_of(rows, "answer_bytes"), map(bool, values_of(rows, "matches")))
    found = {
        version: CurrentRow(version, *others) for version, *others in zip(versions_of(rows), *columns, strict=True)
    }
    return {version: found[row] for version, row in standing_in(versions, found.keys()).items()}
