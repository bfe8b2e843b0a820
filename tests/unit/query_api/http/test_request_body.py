"""Where a body is read, and that it means the same there: large ones outside of the event loop."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from pydantic import BaseModel

from common.errors import TooLarge
from common.limits import MIB
from query_api.compute.ipc import Rejection, encode, receive
from query_api.compute.pool import IN_PROCESS_BYTES_MAX
from query_api.http.body import BodyRules, read_wire
from query_api.http.routes import ROUTES
from query_api.intake.publish import TraceRecord, TraceRecords
from query_api.request.errors import InvalidRequest


class Body(BaseModel):
    text: str = ""
    free: list[Any] | None = None


class CountingCompute:
    """Runs at once, and counts."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        self.count += 1
        return function(*arguments)

    async def close(self) -> None:
        """Nothing is open."""


def _rules(**more: Any) -> BodyRules:
    rules: dict[str, Any] = {
        "model": Body,
        "required": True,
        "prepare": None,
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


def test_body_of_every_route_is_picklable() -> None:
    for route in ROUTES:
        if route.body is not None or route.raw_body:
            assert _sent((route.body, route.prepare)) == (route.body, route.prepare), route.path


def test_records_survive_pickling() -> None:
    records = [
        TraceRecord(number.to_bytes(16, "big"), b"%d" % number * (300_000 if number % 3 else 0)) for number in range(9)
    ]
    packed = TraceRecords.of(records)

    for each in (packed, _sent(packed)):
        assert len(each) == 9
        assert list(each) == records
    assert list(TraceRecords.of([])) == []


def test_errors_survive_pickling() -> None:
    error = InvalidRequest([{"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}])

    again = _sent(Rejection.of(error)).error()

    assert (type(again), again.args, vars(again)) == (type(error), error.args, vars(error))
