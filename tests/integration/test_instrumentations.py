"""Real records of every instrumentation, stored together and queried over HTTP: golden responses, queries of the docs,
sums.

All tests share one load of all samples. The expected results were read by hand from the records
(``tests/support/sample_questions.py``,
``provider_tokens.py``); the golden responses were not: they show a reviewer how a change affects responses.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from common.settings import ClickHouseSettings
from tests.support import sample_questions
from tests.support.instrumentation_page import MODEL_CALLS, PAGE, blocks
from tests.support.provider_tokens import GIVEN
from tests.support.sample_questions import Spans
from tests.support.sample_records import NAMES, spans_of
from tests.support.stored_samples import PROJECTS, StoredSamples, nested, stored_samples

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWERS = Path(__file__).parents[1] / "golden/answers"
SPANS_MAX = 100
SPANS_KEPT = 20
"""Golden files keep at most this many spans of a response, the first ones."""

ALL, FAILED, OVER_TOKENS, OF_SESSION, TOOLS_RUN, TOOLS_ASKED_FOR, NOT_ANTHROPICS_OWN, NOT_AUTOGENS_RUNTIME = map(
    json.loads, blocks(PAGE.read_text(), "json")
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def samples(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[StoredSamples]:
    async with stored_samples(chdb_settings(), chdb_dir) as stored:
        yield stored


class TestAnswers:
    @pytest.mark.parametrize("name", NAMES)
    async def test_response_for_a_sample_equals_its_golden_file_in_both_encodings(
        self, samples: StoredSamples, name: str, request: pytest.FixtureRequest
    ) -> None:
        responses = [await _answer(samples, name, encoding) for encoding in PROJECTS]
        golden = ANSWERS / f"{name}.json"
        if request.config.getoption("--rewrite-golden"):
            golden.write_text(responses[0])

        assert responses == [golden.read_text()] * 2


class TestQuestions:
    async def test_all_model_calls_are_found(self, samples: StoredSamples) -> None:
        assert await _found(samples, ALL) == sample_questions.MODEL_CALLS

    async def test_all_model_calls_are_found_without_duplicates_of_anthropics_client(
        self, samples: StoredSamples
    ) -> None:
        found = await samples.spans(*ALL["filtering"]["conditions"], NOT_ANTHROPICS_OWN)

        told_again = sample_questions.TOLD_BY_ANTHROPICS_CLIENT
        assert {span["span_id"] for span in found} == set().union(*sample_questions.MODEL_CALLS.values()) - told_again

    async def test_failed_model_calls_are_found(self, samples: StoredSamples) -> None:
        assert await _found(samples, FAILED) == sample_questions.FAILED_MODEL_CALLS

    @pytest.mark.parametrize("tokens", sample_questions.CALLS_OVER_TOKENS)
    async def test_calls_above_a_number_of_tokens_are_found(self, samples: StoredSamples, tokens: int) -> None:
        found = await _found(samples, _instead(OVER_TOKENS, 50, tokens))

        assert found == sample_questions.CALLS_OVER_TOKENS[tokens]

    async def test_messages_of_autogens_runtime_are_left_out(self, samples: StoredSamples) -> None:
        of_sample = {"field": "span_id", "operator": "in", "value": sorted(_ids_of("autogen-01"))}
        without_messages = {"field": "attributes", "key": "messaging", "operator": "not_exists"}

        answers = [await samples.spans(of_sample, left_out) for left_out in (NOT_AUTOGENS_RUNTIME, without_messages)]

        assert [sorted(span["span_type"] for span in spans) for spans in answers] == [["agent", "agent", "tool"]] * 2

    async def test_spans_whose_names_hold_ids_are_one_operation(self, samples: StoredSamples) -> None:
        cycles = {"conditions": [{"field": "span_name", "operator": "startswith", "value": "Cycle "}]}
        body = {"filtering": cycles, "group_by": ["operation"], "windowing": {"oldest": "2026-01-01T00:00:00Z"}}

        answer = await samples.post("/spans/groups/query", body)

        assert [group["by"] for group in answer["groups"]] == [{"operation": "Cycle *"}]

    @pytest.mark.parametrize("session", sample_questions.CALLS_OF_SESSION)
    async def test_calls_of_a_session_are_found(self, samples: StoredSamples, session: str) -> None:
        response = await samples.post("/traces/query", _instead(OF_SESSION, "trip-21", session))

        spans = [span for trace in response["traces"] for span in nested(trace["spans"])]
        calls = {span["span_id"] for span in spans if span["span_type"] in MODEL_CALLS}
        assert _by_sample(calls) == sample_questions.CALLS_OF_SESSION[session]

    @pytest.mark.parametrize("tool", sample_questions.TOOLS_RUN)
    async def test_runs_of_a_tool_are_found(self, samples: StoredSamples, tool: str) -> None:
        found = await _found(samples, _instead(TOOLS_RUN, "get_weather", tool))

        assert found == sample_questions.TOOLS_RUN[tool]

    @pytest.mark.parametrize("tool", sample_questions.TOOLS_ASKED_FOR)
    async def test_calls_that_requested_a_tool_are_found(self, samples: StoredSamples, tool: str) -> None:
        found = await _found(samples, _instead(TOOLS_ASKED_FOR, "get_weather", tool))

        assert found == sample_questions.TOOLS_ASKED_FOR[tool]


async def test_tokens_of_each_trace_are_those_of_the_provider(samples: StoredSamples) -> None:
    response = await samples.post("/traces/query", {"windowing": {"limit": 1_000}})

    used = {}
    for trace in response["traces"]:
        for span in nested(trace["spans"]):
            tokens = span["attributes"]["ag"]["metrics"]["tokens"].get("cumulative")
            if "parent_id" not in span and tokens:
                used[trace["trace_id"][:8]] = (tokens["prompt"], tokens.get("completion", 0), tokens["total"])
    assert used == {
        trace: (prompt, completion, prompt + completion)
        for traces in GIVEN.values()
        for trace, (prompt, completion) in traces.items()
    }


async def _answer(samples: StoredSamples, name: str, encoding: str) -> str:
    """Return the response for a sample without what storing adds, formatted for people."""
    spans = await samples.spans(
        {"field": "trace_id", "operator": "in", "value": sorted({span.trace_id.hex() for span in spans_of(name)})},
        {"field": "span_id", "operator": "in", "value": sorted(_ids_of(name))},
        encoding=encoding,
    )
    for span in spans:
        del span["created_at"]
    kept = spans[:SPANS_KEPT] if len(spans) > SPANS_MAX else spans
    return json.dumps({"count": len(spans), "spans": kept}, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


async def _found(samples: StoredSamples, query: dict[str, Any]) -> Spans:
    """Return the spans that a query of the page finds, by sample."""
    spans = await samples.spans(*query["filtering"]["conditions"])
    return _by_sample({span["span_id"] for span in spans})


def _by_sample(found: Collection[str]) -> Spans:
    by_sample = {name: _ids_of(name).intersection(found) for name in NAMES}
    return {name: spans for name, spans in by_sample.items() if spans}


def _ids_of(name: str) -> set[str]:
    return {span.span_id.hex()[-16:] for span in spans_of(name)}


def _instead(query: dict[str, Any], example: object, value: object) -> dict[str, Any]:
    """Return a query of the page with another value than that of the example."""
    text, shown = json.dumps(query), json.dumps(example)
    assert text.count(shown) == 1
    instead: dict[str, Any] = json.loads(text.replace(shown, json.dumps(value)))
    return instead
