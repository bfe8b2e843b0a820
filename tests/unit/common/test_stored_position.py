from __future__ import annotations

from uuid import UUID

import pytest

from common.errors import InvalidInput
from common.stored_position import ANNOUNCED_TOGETHER_MAX, StoredPosition, decode_positions, encode_positions

SETTLED = StoredPosition(UUID(int=7), "cluster/spans/é/0", 2**64 - 1, -1, 1_760_000_000_000_000)


def test_encoded_positions_are_decoded_unchanged() -> None:
    [message] = encode_positions([SETTLED, SETTLED])

    assert decode_positions(message) == [SETTLED, SETTLED]


def test_positions_past_the_limit_are_in_a_second_message() -> None:
    assert len(list(encode_positions([SETTLED] * ANNOUNCED_TOGETHER_MAX))) == 1
    assert len(list(encode_positions([SETTLED] * (ANNOUNCED_TOGETHER_MAX + 1)))) == 2


@pytest.mark.parametrize(
    "message", [b"", b"{}x", b"7", b"[7]", b"[[1,2,3,4,5]]", b'[["","",1,1,1]]', b'[["a"]]', b"\xff"]
)
def test_other_messages_are_rejected(message: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_positions(message)
