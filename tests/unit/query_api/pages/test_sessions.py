"""The place of an id in a cursor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidCursor
from query_api.pages.sessions import ID_BYTES_MAX, IdPosition
from query_api.pages.snapshot import Snapshot

TIMES = st.integers(-(2**63), 2**63 - 1)
POSITIONS = st.builds(
    IdPosition,
    TIMES,
    st.binary(max_size=ID_BYTES_MAX),
    st.binary(min_size=16, max_size=16),
    st.none() | TIMES,
    st.builds(Snapshot.of_partitions, st.dictionaries(st.text(max_size=20), st.integers(0, 2**63 - 1), max_size=4)),
)


@given(POSITIONS)
def test_unpack_reads_what_pack_wrote(position: IdPosition) -> None:
    assert IdPosition.unpack(position.pack()) == position


def test_short_position_is_rejected() -> None:
    with pytest.raises(InvalidCursor):
        IdPosition.unpack(b"\0" * 41)
