"""``GET /status/instrumentations`` over the real records of every instrumentation, and over spans that lack something."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
import pytest
import pytest_asyncio

from clearspan.client.doctor import doctor
from clearspan.options import ServerOptions, WindowOptions
from common.clickhouse.store import ColumnStore
from common.codec import span_json
from common.ids import DEFAULT_PROJECT_ID
from common.limits import SpanLimits
from common.settings import ClickHouseSettings, Settings
from common.times import SystemClock, format_us
from query_api.request.limits import Limits
from tests.support.api import PROJECT_A, KnownKeys, context_of, serving
from tests.support.span_corpus import store_record
from tests.support.stored_samples import PROJECTS, StoredSamples, stored_samples

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVERYTHING: Final = "2020-01-01T00:00:00Z"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def samples(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[StoredSamples]:
    async with stored_samples(chdb_settings(), chdb_dir) as stored:
        yield stored


async def coverage(client: aiohttp.ClientSession, *, key: str = "protobuf", **query: str) -> dict[str, Any]:
    headers = {"Authorization": f"ApiKey {key}"}
    async with client.get("/status/instrumentations", params={"oldest": EVERYTHING, **query}, headers=headers) as got:
        assert got.status == 200, await got.text()
        answer: dict[str, Any] = await got.json()
    return answer


def of_scope(answer: dict[str, Any], name: str, version: str = "") -> dict[str, Any]:
    [found] = [
        each for each in answer["instrumentations"] if (each["scope_name"], each["scope_version"]) == (name, version)
    ]
    return dict(found)


def missing(instrumentation: dict[str, Any]) -> list[str]:
    return [hint["missing"] for hint in instrumentation["hints"]]


class TestSamples:
    async def test_both_encodings_are_the_same(self, samples: StoredSamples) -> None:
        protobuf, json = [await coverage(samples.client, key=encoding) for encoding in PROJECTS]

        assert protobuf == json

    async def test_calls_are_counted_by_what_they_have(self, samples: StoredSamples) -> None:
        found = of_scope(await coverage(samples.client), "openinference.instrumentation.anthropic", "3.1.0")

        assert (found["spans_count"], found["calls_count"]) == (6, 6)
        assert found["calls"] == {
            "model": {"count": 6, "of": 6},
            "tokens": {"count": 5, "of": 5},
            "cost": {"count": 5, "of": 5},
            "inputs": {"count": 6, "of": 6},
            "outputs": {"count": 5, "of": 5},
            "session": {"count": 0, "of": 6},
            "user": {"count": 1, "of": 6},
            "error_message": {"count": 1, "of": 1},
        }
        assert missing(found) == ["session", "user"]

    async def test_missing_messages_have_the_setting_of_the_library(self, samples: StoredSamples) -> None:
        answer = await coverage(samples.client)

        by_default = of_scope(answer, "opentelemetry.instrumentation.openai_v2")
        assert by_default["calls"]["inputs"] == {"count": 0, "of": 4}
        [inputs, outputs] = [hint for hint in by_default["hints"] if hint["missing"] in ("inputs", "outputs")]
        assert inputs["hint"] == outputs["hint"]
        assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only" in inputs["hint"]

    async def test_instrumentation_without_model_calls_is_listed(self, samples: StoredSamples) -> None:
        found = of_scope(await coverage(samples.client), "traceloop.tracer")

        assert found == {
            "scope_name": "traceloop.tracer", "scope_version": "", "spans_count": 11, "calls_count": 0, "hints": [],
        }  # fmt: skip

    async def test_session_of_the_root_counts_for_the_calls_below(self, samples: StoredSamples) -> None:
        found = of_scope(await coverage(samples.client), "ai")

        in_spans = await samples.spans(
            {"field": "scope", "key": "name", "value": "ai"},
            {"field": "span_type", "operator": "in", "value": ["chat", "embedding"]},
            {"field": "attributes", "key": "ag.session.id", "operator": "exists"},
        )
        assert found["calls"]["session"] == {"count": 14, "of": 14}
        assert len(in_spans) <= 14

    async def test_spans_outside_of_the_window_do_not_count(self, samples: StoredSamples) -> None:
        assert await coverage(samples.client, newest=EVERYTHING) == {"count": 0, "instrumentations": []}

    async def test_doctor_prints_80_columns(
        self, samples: StoredSamples, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("NO_COLOR", "1")

        printed = re.sub("\x1b\\[[0-9;]*m", "", await _doctor(samples, capsys, WindowOptions(oldest=EVERYTHING)))

        table, _, below = printed.partition("\n\n")
        title, _rule, *rows = table.splitlines()
        assert title.split() == [
            "instrumentation", "calls", "model", "tokens", "cost", "in", "out", "session", "user", "error",
        ]  # fmt: skip
        [row] = [row for row in rows if row.startswith("openinference") and "anthropic" in row]
        assert row.split()[1:] == ["6", "100%", "100%", "100%", "100%", "100%", "0%", "16%", "100%"]
        assert "using_session" in below
        assert max(map(len, printed.splitlines())) <= 80

    async def test_doctor_without_spans_says_what_to_do(
        self, samples: StoredSamples, capsys: pytest.CaptureFixture[str]
    ) -> None:
        printed = await _doctor(samples, capsys, WindowOptions(newest=EVERYTHING, oldest=EVERYTHING))

        assert "No span started in this window." in printed
        assert "/otlp/v1/traces" in printed

    async def test_doctor_prints_objects(self, samples: StoredSamples, capsys: pytest.CaptureFixture[str]) -> None:
        printed = await _doctor(samples, capsys, WindowOptions(oldest=EVERYTHING), as_json=True)

        assert len(printed.splitlines()) == (await coverage(samples.client))["count"]


async def _doctor(
    samples: StoredSamples, capsys: pytest.CaptureFixture[str], window: WindowOptions, *, as_json: bool = False
) -> str:
    """Run the command in a thread, beside the loop of the API; return what it printed, without the log of the API."""
    server = ServerOptions(url=str(samples.client._base_url).rstrip("/"), key="protobuf")
    options: dict[str, Any] = {"server": server, "window": window, "as_json": as_json}
    assert await asyncio.to_thread(lambda: doctor.run(Settings(), **options)) == 0
    return "\n".join(line for line in capsys.readouterr().out.splitlines() if "request_id=" not in line)


START_US: Final = 1_790_000_000_000_000


def call(
    number: int, attributes: dict[str, Any] | None = None, *, scope: str = "mine", trace: int = 1
) -> dict[str, Any]:
    return {
        "trace_id": f"{trace:032x}",
        "span_id": f"{number:016x}",
        "span_name": "call",
        "start_time": format_us(START_US + number),
        "end_time": format_us(START_US + number + 1),
        "scope": {"name": scope},
        "attributes": {"ag.type.span": "chat", **(attributes or {})},
    }


async def stored(store: ColumnStore, spans: list[dict[str, Any]], *, offset: int = 0) -> None:
    decoded = span_json.decode(orjson.dumps({"spans": spans}), limits=SpanLimits(), now_ns=START_US * 1_000)
    await store_record(store, decoded.spans, offset=offset)


class TestStored:
    async def test_only_the_latest_version_counts(self, store: ColumnStore) -> None:
        await stored(store, [call(1)])
        await stored(store, [call(1, {"ag.meta.request.model": "small"})], offset=1)

        async with _serving(store) as client:
            found = of_scope(await coverage(client, key="own"), "mine")

        assert (found["calls_count"], found["calls"]["model"]) == (1, {"count": 1, "of": 1})

    async def test_response_says_how_much_was_examined(self, store: ColumnStore) -> None:
        await stored(store, [call(number) for number in range(1, 4)])

        async with _serving(store, limits=Limits(sample_spans=2)) as client:
            answer = await coverage(client, key="own")

        assert answer["sampled_spans"] == answer["sampled_calls"] == {"of": 3, "examined": 2}
        assert of_scope(answer, "mine")["calls_count"] == 2

    async def test_a_project_sees_its_own_spans_alone(self, store: ColumnStore) -> None:
        await stored(store, [call(1)])

        async with _serving(store) as client:
            assert await coverage(client, key="other") == {"count": 0, "instrumentations": []}

    async def test_session_of_another_trace_does_not_count(self, store: ColumnStore) -> None:
        await stored(store, [call(1), call(2, {"ag.session.id": "s-1"}, trace=2, scope="other")])

        async with _serving(store) as client:
            answer = await coverage(client, key="own")

        shares = {name: of_scope(answer, name)["calls"]["session"]["count"] for name in ("mine", "other")}
        assert shares == {"mine": 0, "other": 1}


def _serving(store: ColumnStore, *, limits: Limits | None = None) -> AbstractAsyncContextManager[aiohttp.ClientSession]:
    keys = KnownKeys({"own": DEFAULT_PROJECT_ID, "other": PROJECT_A})
    return serving(context_of(store=store, clock=SystemClock(), keys=keys, limits=limits))
