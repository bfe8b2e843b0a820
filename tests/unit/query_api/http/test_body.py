"""Reading a body: in which process, within which budget, and in which encoding."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from common.children.child import ServiceFailure, encode, receive
from common.errors import InvalidInput, Overloaded, TooLarge, UnsupportedMedia
from common.fair_share import FairBudget, Tenant
from common.limits import MIB
from common.settings import HttpSettings, LimitSettings, Settings
from common.steps import Steps
from query_api.compute import IN_PROCESS_BYTES_MAX
from query_api.http.body import (
    PIECE_BYTES_MAX,
    SLICE_BYTES,
    BodyRules,
    body_budget,
    compress,
    inflate,
    inflate_by_magic,
    inflate_in_steps,
    read_wire,
    takes_gzip,
)
from query_api.http.routes import ROUTES
from query_api.intake.records import IntakeRecord, IntakeRecords
from query_api.request.errors import InvalidRequest


class Body(BaseModel):
    text: str = ""
    free: list[Any] | None = None


class CountingCompute:
    """Runs at once, and counts."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self, function: Callable[..., Any], /, *arguments: Any, timeout_s: float | None = None) -> Any:
        self.count += 1
        return function(*arguments)

    async def close(self) -> None:
        """Nothing is open."""


def _rules(**more: Any) -> BodyRules:
    rules: dict[str, Any] = {
        "model": Body,
        "required": True,
        "prepare": None,
        "prepare_in_steps": None,
        "content_encoding": "",
        "bytes_max": MIB,
        "values_max": 1_000,
        "content_type": None,
    }
    return BodyRules(**rules | more)


def _json_of(length: int) -> bytes:
    return b'{"text":"%b"}' % (b"x" * (length - len('{"text":""}')))


def _sent(message: Any) -> Any:
    """Return the message as another process receives it."""
    return receive(BytesIO(b"".join(encode(message))))


@pytest.mark.parametrize(("length", "count"), [(IN_PROCESS_BYTES_MAX, 0), (IN_PROCESS_BYTES_MAX + 1, 1)])
@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_body_that_inflates_to_a_large_one_is_read_in_another_process(
    length: int, count: int, encoding: str
) -> None:
    compute = CountingCompute()
    wire = gzip.compress(_json_of(length)) if encoding else _json_of(length)

    body = await read_wire(compute, wire, _rules(content_encoding=encoding))

    assert len(body.text) == length - len('{"text":""}')
    assert compute.count == count


async def test_body_above_a_small_limit_is_rejected_in_this_process() -> None:
    compute = CountingCompute()

    with pytest.raises(TooLarge, match="larger than 1000 bytes when inflated"):
        await read_wire(compute, gzip.compress(_json_of(2_000)), _rules(content_encoding="gzip", bytes_max=1_000))
    assert compute.count == 0


@pytest.mark.parametrize("free", [[{}] * 996, [[]] * 996, [{"a": 1}] * 498, ["a,b:c{d[e"] * 996])
async def test_counting_values_stops_at_the_limit(free: list[Any]) -> None:
    """The body, its text and its list are three; what looks like a value inside of a text is none."""
    compute = CountingCompute()
    valid = json.dumps({"text": ",:[{" * 999, "free": [*free, 1]}).encode()
    one_more = json.dumps({"text": ",:[{" * 999, "free": [*free, 1, 1]}).encode()

    assert len((await read_wire(compute, valid, _rules())).free) == len(free) + 1
    with pytest.raises(TooLarge, match="more than 1000 JSON values"):
        await read_wire(compute, one_more, _rules())


def _kept_below(size: int) -> Callable[[bytes], Steps[str | None]]:
    """Prepare bodies that have less than ``size`` bytes, in one step for each."""

    def prepare(body: bytes) -> Steps[str | None]:
        for _ in body:
            yield
        return body.decode() if len(body) < size else None

    return prepare


@pytest.mark.parametrize(("size", "prepared", "count"), [(9_999, "x" * 9_999, 0), (10_000, "in a process", 1)])
@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_large_body_is_prepared_in_another_process_only_if_it_cannot_be_in_steps(
    size: int, prepared: str, count: int, encoding: str
) -> None:
    compute = CountingCompute()
    wire = gzip.compress(b"x" * size) if encoding else b"x" * size
    rules = _rules(
        model=None,
        content_encoding=encoding,
        prepare=lambda _: "in a process",
        prepare_in_steps=_kept_below(10_000),
        bytes_max=10_000,
    )

    assert await read_wire(compute, wire, rules) == prepared
    assert compute.count == count


def test_inflating_is_done_in_steps() -> None:
    content = b"x" * 5 * MIB
    steps = inflate_in_steps(gzip.compress(content), content_encoding="gzip", bytes_max=5 * MIB)

    assert sum(1 for _ in steps) >= 5 * MIB // PIECE_BYTES_MAX
    for size in (PIECE_BYTES_MAX - 1, PIECE_BYTES_MAX, PIECE_BYTES_MAX + 1, 5 * MIB):
        several = gzip.compress(content[:size]) + gzip.compress(b"end")
        assert inflate(several, content_encoding="gzip", bytes_max=size + 3) == content[:size] + b"end"


def test_body_of_every_route_is_picklable() -> None:
    for route in ROUTES:
        if route.body is not None or route.raw_body:
            assert _sent((route.body, route.prepare)) == (route.body, route.prepare), route.path


def test_records_survive_pickling() -> None:
    records = [
        IntakeRecord(
            number.to_bytes(16, "big"),
            b"%d" % number * (300_000 if number % 3 else 0),
            partition=number if number % 4 else None,
        )
        for number in range(9)
    ]
    packed = IntakeRecords.of(records)

    for each in (packed, _sent(packed)):
        assert len(each) == 9
        assert list(each) == records
    assert list(IntakeRecords.of([])) == []


def test_errors_survive_pickling() -> None:
    error = InvalidRequest([{"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}])

    again = _sent(ServiceFailure.of(error)).error()

    assert (type(again), again.args, vars(again)) == (type(error), error.args, vars(error))


ONE, OTHER = (Tenant(UUID(int=number), has_neighbors=True) for number in (1, 2))
ALONE = replace(ONE, has_neighbors=False)


def _budget(*, bodies: int = 4 * MIB, body: int = MIB) -> FairBudget:
    http, limits = HttpSettings(bodies_bytes_max=bodies), LimitSettings(body_bytes_max=body)
    return body_budget(Settings.model_validate({"http": http, "limits": limits}))


def test_project_with_neighbors_gets_half_of_the_memory() -> None:
    budget = _budget()
    budget.take(ONE, 2 * MIB)

    with pytest.raises(Overloaded):
        budget.take(ONE, 1)
    budget.take(OTHER, 2 * MIB)
    budget.give_back(ONE, MIB)
    budget.take(ONE, MIB)


def test_project_without_neighbors_gets_all_memory() -> None:
    budget = _budget()
    budget.take(ALONE, 4 * MIB)

    with pytest.raises(Overloaded):
        budget.take(ALONE, 1)


@pytest.mark.parametrize("tenant", [ONE, ALONE])
def test_one_body_of_the_largest_size_is_always_allowed(tenant: Tenant) -> None:
    _budget(body=8 * MIB).take(tenant, 8 * MIB)


TEXT = b"spans " * 100
ZIPPED = gzip.compress(TEXT, mtime=0)


@pytest.mark.parametrize("content_encoding", ["gzip", "x-gzip", " GZIP "])
def test_all_members_of_gzip_are_inflated(content_encoding: str) -> None:
    body = gzip.compress(TEXT) + gzip.compress(b"more")

    assert inflate(body, content_encoding=content_encoding, bytes_max=10_000) == TEXT + b"more"


@pytest.mark.timeout(60)
def test_time_to_inflate_a_member_depends_only_on_its_length() -> None:
    """A second; it was more than a minute, in which nobody was answered."""
    body = gzip.compress(b"", mtime=0) * 400_000 + ZIPPED

    assert inflate(body, content_encoding="gzip", bytes_max=10_000) == TEXT


@pytest.mark.parametrize("cut", range(1, len(ZIPPED), 7))
def test_member_may_end_anywhere_in_a_slice(cut: int) -> None:
    padding = gzip.compress(random.Random(1).randbytes(SLICE_BYTES - cut), mtime=0)
    begun = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(padding)

    assert inflate(padding + ZIPPED, content_encoding="gzip", bytes_max=10_000) == begun + TEXT
    with pytest.raises(InvalidInput, match="ends early"):
        inflate(padding + ZIPPED[:cut], content_encoding="gzip", bytes_max=10_000)


def test_inflated_size_may_equal_the_limit_but_not_exceed_it() -> None:
    body = gzip.compress(TEXT)

    assert inflate(body, content_encoding="gzip", bytes_max=len(TEXT)) == TEXT
    with pytest.raises(TooLarge):
        inflate(body, content_encoding="gzip", bytes_max=len(TEXT) - 1)


def test_gzip_bomb_is_rejected_before_it_is_inflated() -> None:
    bomb = gzip.compress(bytes(50_000_000))

    with pytest.raises(TooLarge, match="larger than 1000 bytes when inflated"):
        inflate(bomb, content_encoding="gzip", bytes_max=1_000)


@pytest.mark.parametrize("body", [b"plain", ZIPPED[:-9], ZIPPED + b"rest"])
def test_invalid_gzip_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        inflate(body, content_encoding="gzip", bytes_max=10_000)


@pytest.mark.parametrize("content_encoding", ["br", "deflate", "zstd", "gzip, gzip"])
def test_other_encodings_are_unsupported(content_encoding: str) -> None:
    with pytest.raises(UnsupportedMedia, match="allowed: gzip, identity"):
        inflate(TEXT, content_encoding=content_encoding, bytes_max=10_000)


@pytest.mark.parametrize("body", [TEXT, ZIPPED, *(zlib.compress(TEXT, level) for level in (0, 1, 6, 9))])
def test_compression_is_recognized_by_its_first_bytes(body: bytes) -> None:
    assert inflate_by_magic(body, bytes_max=10_000) == TEXT


@pytest.mark.parametrize(
    ("accept_encoding", "expected"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, *", False),
        ("br", False),
    ],
)
def test_gzip_is_sent_only_to_clients_that_accept_it(accept_encoding: str, expected: bool) -> None:
    assert takes_gzip(accept_encoding) is expected


@pytest.mark.parametrize("length", [1_000, 200_000])
async def test_inflate_reverses_compress(length: int) -> None:
    body = TEXT * (length // len(TEXT))

    assert gzip.decompress(await compress(body)) == body
