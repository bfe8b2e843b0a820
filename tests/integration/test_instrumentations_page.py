"""``docs/instrumentations.md``: its tables are generated from the mappings and the samples, and its first code example
works.
"""

from __future__ import annotations

import ast
import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from common.codec import otlp_protobuf
from common.limits import SpanLimits
from common.times import SystemClock
from ingest.normalize import normalize
from tests.fakes.kafka import MemoryBroker
from tests.snippets import snippets
from tests.support.api import context_of, serving
from tests.support.instrumentation_page import INSTRUMENTATIONS, PAGE, PARTS, blocks, parts_of, with_parts_made
from tests.support.sample_records import NAMES, NOW_NS

ANSWERS = Path(__file__).parents[1] / "golden/answers"
NO_LLM = ("plain-sdk", "telemetrygen")


def test_tables_equal_the_mappings_and_the_samples(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite-golden"):
        PAGE.write_text(with_parts_made(PAGE.read_text()))
    page = PAGE.read_text()

    assert with_parts_made(page) == page


def test_every_table_occurs_once() -> None:
    assert sorted(parts_of(PAGE.read_text())) == sorted(PARTS)


def test_every_sample_of_an_instrumentation_is_mentioned() -> None:
    mentioned = {name for instrumentation in INSTRUMENTATIONS for name in instrumentation.samples}

    assert {name for name in NAMES if not name.startswith(NO_LLM)} <= mentioned


def test_forty_libraries_have_a_row_with_their_setup() -> None:
    section = PAGE.read_text().partition("## Libraries\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]

    assert len(rows) >= 40
    assert [row for row in rows if len(row) != 4 or not all(row)] == []
    libraries = [row[0] for row in rows]
    assert libraries == sorted(libraries, key=str.lower)


def test_every_golden_response_belongs_to_a_sample() -> None:
    assert sorted(path.stem for path in ANSWERS.iterdir()) == NAMES


@pytest.mark.parametrize("block", blocks(PAGE.read_text(), "python"))
def test_python_code_compiles_and_sends_to_clearspan(block: str) -> None:
    ast.parse(block)

    assert re.search(r"""os\.environ\[["']CLEARSPAN_URL["']\]""", block)


@pytest.mark.parametrize("block", blocks(PAGE.read_text(), "js"))
def test_node_code_sends_to_clearspan(block: str) -> None:
    assert "`${process.env.CLEARSPAN_URL}/otlp/v1/traces`" in block


def test_every_snippet_has_a_command_that_installs_its_packages() -> None:
    page = PAGE.read_text()
    found = list(snippets(page))

    assert [snippet.code for snippet in found] == re.findall(
        r"^```(?:python|js)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE
    )
    assert all(re.match("(pip|npm) install ", snippet.install) for snippet in found)


def test_the_runtime_context_of_the_ai_sdk_becomes_attributes() -> None:
    """Without it, spans of version 7 have no session and no user."""
    (block,) = [block for block in blocks(PAGE.read_text(), "js") if "registerTelemetry" in block]

    assert "new OpenTelemetry({ runtimeContext: true })" in block
    assert "includeRuntimeContext: { sessionId: true, userId: true }" in block


async def test_first_span_of_plain_opentelemetry_arrives_as_a_model_call() -> None:
    (block,) = [snippet.code for snippet in snippets(PAGE.read_text()) if snippet.name == "OpenTelemetry alone"]
    broker = MemoryBroker()
    async with serving(context_of(broker=broker, clock=SystemClock())) as client:
        environment = {**os.environ, "CLEARSPAN_URL": str(client._base_url).rstrip("/")}
        sender = await asyncio.create_subprocess_exec(
            sys.executable, "-c", block, env=environment, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await sender.communicate()

    assert errors == b""
    (record,) = broker.records("otlp_spans")
    assert record.value is not None
    (normal,) = normalize(otlp_protobuf.decode(record.value, limits=SpanLimits(), now_ns=NOW_NS).spans)
    assert (normal.span_type, normal.session_id) == ("chat", "trip-21")
    assert normal.attributes["ag"]["metrics"]["tokens"]["incremental"] == {"prompt": 12, "total": 12}
    assert normal.attributes["ag"]["meta"]["request"] == {"model": "gpt-4o-mini"}
