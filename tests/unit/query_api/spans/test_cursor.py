"""Cursors and signed coordinates: what is written is read in its own scope, and nothing else is."""

from __future__ import annotations

import base64
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidCursor
from common.kafka.record import Coordinates
from query_api.freshness.headers import COORDINATES_MAX, read_signed_coordinates, sign_coordinates
from query_api.spans.versions import Position
from query_api.spans.window import (
    DATED,
    edge,
    fingerprint,
    is_edge,
    pack_position,
    read_cursor,
    unpack_position,
    write_cursor,
)
from query_api.spans.windowing import Order
from tests.support.api import PROJECT_A

SECRET = b"secret"
OWNER = fingerprint([b"project", b"filter"])
POSITION = Position(1_780_000_000_000_000, b"s" * 16, b"t" * 16)
CURSOR = write_cursor(pack_position(POSITION), scope=OWNER, secret=SECRET)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_written_cursor_is_read_back(start_us: int, span_id: bytes, trace_id: bytes) -> None:
    position = Position(start_us, span_id, trace_id)

    text = write_cursor(pack_position(position), scope=OWNER, secret=SECRET)

    content = read_cursor(text, scope=OWNER, secret=SECRET)
    assert unpack_position(content.position) == position
    assert content.now_us is None
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(st.integers(-(2**63), 2**63 - 1), st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_edge_comes_after_every_span_with_its_start(start_us: int, span_id: bytes, trace_id: bytes) -> None:
    assert edge(Position, start_us, Order.DESCENDING) <= Position(start_us, span_id, trace_id)
    assert edge(Position, start_us, Order.ASCENDING) >= Position(start_us, span_id, trace_id)
    assert is_edge(edge(Position, start_us, Order.ASCENDING))
    assert is_edge(edge(Position, start_us, Order.DESCENDING))
    assert not is_edge(POSITION)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=60))
def test_time_of_the_first_page_is_read_back(now_us: int, position: bytes) -> None:
    text = write_cursor(position, scope=OWNER, secret=SECRET, now_us=now_us)

    assert read_cursor(text, scope=OWNER, secret=SECRET) == (position, now_us)


def test_version_of_a_cursor_cannot_be_changed() -> None:
    raw = base64.urlsafe_b64decode(CURSOR + "=" * (-len(CURSOR) % 4))
    dated = base64.urlsafe_b64encode(bytes([DATED]) + raw[1:]).rstrip(b"=").decode()

    with pytest.raises(InvalidCursor, match="was changed"):
        read_cursor(dated, scope=OWNER, secret=SECRET)


def test_cursor_of_an_earlier_release_is_read() -> None:
    text = "BSqZHpWsgPOgJ-y0e0UJHg_vv6E45GqvuAUWMWWc6KbFt6I4_B2jqQCY2w8LmjqGT1DBETbWzF7Rv0QoZSveYjf0Bb0W2_fwZQ"

    assert unpack_position(read_cursor(text, scope=OWNER, secret=SECRET).position) == POSITION


BASE64 = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", max_size=200)


@given(st.text(max_size=200) | BASE64 | st.binary(max_size=200).map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_no_other_text_is_a_cursor(text: str) -> None:
    with pytest.raises(InvalidCursor):
        read_cursor(text, scope=OWNER, secret=SECRET)
    with pytest.raises(InvalidCursor):
        read_signed_coordinates(text, project_id=PROJECT_A, secret=SECRET)


@given(st.integers(0, len(CURSOR)), st.integers(0, len(CURSOR)), BASE64)
def test_no_part_of_a_cursor_can_be_cut_out_or_replaced(begin: int, end: int, between: str) -> None:
    changed = CURSOR[:begin] + between + CURSOR[end:]
    if changed == CURSOR:
        return

    with pytest.raises(InvalidCursor):
        read_cursor(changed, scope=OWNER, secret=SECRET)


@given(st.binary(max_size=80), st.binary(min_size=16, max_size=16), st.binary(min_size=1, max_size=40))
def test_no_other_project_and_no_other_secret_reads_a_cursor(position: bytes, scope: bytes, secret: bytes) -> None:
    text = write_cursor(position, scope=OWNER, secret=SECRET)

    for other_scope, other_secret in ((scope, SECRET), (OWNER, secret)):
        if (other_scope, other_secret) != (OWNER, SECRET):
            with pytest.raises(InvalidCursor):
                read_cursor(text, scope=other_scope, secret=other_secret)


@pytest.mark.parametrize("index", range(0, len(CURSOR), 7))
def test_every_changed_character_is_detected(index: int) -> None:
    other = "A" if CURSOR[index] != "A" else "B"

    with pytest.raises(InvalidCursor, match=r"in `next`"):
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
    monkeypatch.setattr("query_api.spans.window.VERSION", DATED + 1)

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


PROJECT_B = UUID("00000000-0000-7000-8000-00000000000b")
WHERE = [
    Coordinates("spans", 1, 7),
    Coordinates("spans", 0, 9),
    Coordinates("spans", 1, 10),
    Coordinates("s", 1, 8),
]


def _signed(where: list[Coordinates], *, project_id: UUID = PROJECT_A) -> str:
    return sign_coordinates(where, project_id=project_id, secret=b"secret")


def _read(text: str, *, project_id: UUID = PROJECT_A, secret: bytes = b"secret") -> list[Coordinates]:
    return read_signed_coordinates(text, project_id=project_id, secret=secret)


def test_the_last_record_of_each_partition_is_signed() -> None:
    assert _read(_signed(WHERE)) == [Coordinates("s", 1, 8), Coordinates("spans", 0, 9), Coordinates("spans", 1, 10)]


def test_coordinates_of_another_project_or_secret_are_rejected() -> None:
    for project_id, secret in ((PROJECT_B, b"secret"), (PROJECT_A, b"other")):
        with pytest.raises(InvalidCursor):
            _read(_signed(WHERE), project_id=project_id, secret=secret)


def test_length_of_coordinates_does_not_reveal_offsets() -> None:
    assert len(_signed([Coordinates("spans", 0, 9)])) == len(_signed([Coordinates("spans", 0, 10**11)]))


def test_number_of_signed_partitions_is_limited() -> None:
    where = [Coordinates("otlp_spans", partition, 10**12) for partition in range(COORDINATES_MAX + 1)]

    assert len(_read(_signed(where))) == COORDINATES_MAX
    assert len(_signed(where)) < 8 * 1024
