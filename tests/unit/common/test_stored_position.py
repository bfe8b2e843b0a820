from __future__ import annotations

from uuid import UUID

import pytest

from common.errors import InvalidInput
from common.stored_position import ANNOUNCED_TOGETHER_MAX, StoredPosition, decode_positions, encode_positions

SETTLED = StoredPosition(UUID(int=7), "cluster/spans/é/0", 2**64 - 1, -1, 1_760_000_000_000_000)


def test_what_is_announced_is_understood() -> None:
    [message] = encode_positions([SETTLED, SETTLED])

    assert decode_positions(message) == [SETTLED, SETTLED]


def test_so_many_are_one_message_and_one_more_is_another() -> None:
    assert len(list(encode_positions([SETTLED] * ANNOUNCED_TOGETHER_MAX))) == 1
    assert len(list(encode_positions([SETTLED] * (ANNOUNCED_TOGETHER_MAX + 1)))) == 2


@pytest.mark.parametrize(
    "message", [b"", b"{}x", b"7", b"[7]", b"[[1,2,3,4,5]]", b'[["","",1,1,1]]', b'[["a"]]', b"\xff"]
)
def test_anything_else_is_refused(message: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_positions(message)
