"""The cursor: what is written is read, for its own walk alone, and nothing else is."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidCursor
from query_api.pages.window import edge, is_edge, pack_position, unpack_position
from query_api.request.cursor import VERSION, fingerprint, read_cursor, write_cursor
from query_api.spans.versions import Position
from query_api.spans.windowing import Order

SECRET = b"secret"
OWNER = fingerprint([b"project", b"filter"])
POSITION = Position(1_780_000_000_000_000, b"s" * 16, b"t" * 16)
CURSOR = write_cursor(pack_position(POSITION), scope=OWNER, secret=SECRET)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_written_cursor_is_read_back(start_us: int, span_id: bytes, trace_id: bytes) -> None:
    position = Position(start_us, span_id, trace_id)

    text = write_cursor(pack_position(position), scope=OWNER, secret=SECRET)

    assert unpack_position(read_cursor(text, scope=OWNER, secret=SECRET)) == position
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(st.integers(-(2**63), 2**63 - 1), st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_edge_comes_after_every_span_with_its_start(start_us: int, span_id: bytes, trace_id: bytes) -> None:
    assert edge(Position, start_us, Order.DESCENDING) <= Position(start_us, span_id, trace_id)
    assert edge(Position, start_us, Order.ASCENDING) >= Position(start_us, span_id, trace_id)
    assert is_edge(edge(Position, start_us, Order.ASCENDING))
    assert is_edge(edge(Position, start_us, Order.DESCENDING))
    assert not is_edge(POSITION)


@pytest.mark.parametrize("index", range(0, len(CURSOR), 7))
def test_every_changed_character_is_detected(index: int) -> None:
    other = "A" if CURSOR[index] != "A" else "B"

    with pytest.raises(InvalidCursor, match=r"windowing\.next"):
        read_cursor(CURSOR[:index] + other + CURSOR[index + 1 :], scope=OWNER, secret=SECRET)


@pytest.mark.parametrize(
    "text",
    ["", "x", CURSOR[:-1], CURSOR + "A", CURSOR + "=", CURSOR + "\n", "é" * 20, CURSOR.replace("_", "/")[:-4] + "!!!!"],
)
def test_invalid_cursor_is_rejected(text: str) -> None:
    with pytest.raises(InvalidCursor, match=r"cannot be read|was changed"):
        read_cursor(text, scope=OWNER, secret=SECRET)


def test_unused_bits_of_base64_are_detected() -> None:
    raw = base64.urlsafe_b64decode(CURSOR + "==" if len(CURSOR) % 4 == 2 else CURSOR + "=" * (-len(CURSOR) % 4))
    twins = [
        CURSOR[:-1] + last
        for last in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        if CURSOR[-1] != last and base64.urlsafe_b64decode(CURSOR[:-1] + last + "=" * (-len(CURSOR) % 4)) == raw
    ]

    for twin in twins:
        with pytest.raises(InvalidCursor):
            read_cursor(twin, scope=OWNER, secret=SECRET)


def test_cursor_of_another_query_is_rejected() -> None:
    with pytest.raises(InvalidCursor, match="belongs to another query"):
        read_cursor(CURSOR, scope=fingerprint([b"project", b"other"]), secret=SECRET)


def test_cursor_with_another_secret_is_rejected() -> None:
    with pytest.raises(InvalidCursor, match="not one of this service"):
        read_cursor(CURSOR, scope=OWNER, secret=b"other")


def test_cursor_of_another_version_has_its_own_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query_api.request.cursor.VERSION", VERSION + 1)

    with pytest.raises(InvalidCursor, match="another version"):
        read_cursor(CURSOR, scope=OWNER, secret=SECRET)


def test_content_of_a_cursor_is_encrypted() -> None:
    near = write_cursor(pack_position(POSITION)[:-1] + b"T", scope=OWNER, secret=SECRET)
    raw, other = (base64.urlsafe_b64decode(each + "=" * (-len(each) % 4)) for each in (CURSOR, near))

    assert OWNER not in raw
    assert POSITION.span_id not in raw
    # What is equal in two cursors does not show: one byte in 256 is equal by chance.
    assert sum(one == another for one, another in zip(raw, other, strict=True)) < len(raw) / 4


def test_fingerprint_depends_on_the_boundaries_of_its_parts() -> None:
    assert fingerprint([b"ab", b"c"]) != fingerprint([b"a", b"bc"])
