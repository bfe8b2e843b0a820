"""Versions and their rows are matched column by column exactly as one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from query_api.spans.narrow_rows import row_indexes, table_of
from query_api.spans.versions import Version, standing_in


def ids() -> st.SearchStrategy[bytes]:
    """Few ids, some with zeros at their end."""
    return st.sampled_from([b"\1" * 16, b"\1" * 8 + bytes(8), bytes(15) + b"\1"])


versions = st.builds(
    Version,
    start_us=st.sampled_from([-1, 0, 1_780_000_000_000_000]),
    span_id=ids(),
    trace_id=ids(),
    partition_id=st.sampled_from([b"a/b/0", b"a/b/1"]),
    version=st.integers(0, 3),
)


@given(
    latest=st.lists(versions, min_size=1, unique_by=lambda version: version.key),
    rows=st.lists(versions, min_size=1),
)
def test_rows_stand_in_for_versions(latest: list[Version], rows: list[Version]) -> None:
    indexes = row_indexes(table_of(latest), table_of(rows)).tolist()

    found = {version: rows[index] for version, index in zip(latest, indexes, strict=True) if index >= 0}
    assert found == standing_in(latest, set(rows))
