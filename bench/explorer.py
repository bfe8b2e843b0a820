"""Measures the explorer in Chromium: the first view, opening a trace, and frames per second while one scrolls.

A view counts as open when its first row is visible. The API and the engine run in this process, Chromium on
the same cores.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from playwright.async_api import Page, async_playwright

from bench.harness import bench_settings, child_main, median, migrated_store
from bench.ingest import tables_of
from bench.records import START_NS, plain_records
from common.clickhouse.span_columns import SPANS_TABLE
from query_api.http.app import open_api

ROUNDS: Final = 5
TRACES: Final = {1_000: "11" * 16, 100_000: "22" * 16}
"""The sizes of the traces that are opened, and their ids."""

CHILDREN: Final = 8
SPANS_PER_RECORD: Final = 500
ARGUMENTS: Final = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]

COUNT_FRAMES: Final = """
async (element) => {
  const seconds = 3, started = performance.now();
  let frames = 0;
  await new Promise((done) => {
    const step = (now) => {
      frames += 1;
      element.scrollTop += 60;
      if (now - started < seconds * 1000) requestAnimationFrame(step); else done();
    };
    requestAnimationFrame(step);
  });
  return frames / ((performance.now() - started) / 1000);
}
"""


def trace_records(trace_id: str, spans_count: int) -> Iterator[bytes]:
    """Yield records of one trace: a tree in which a span has ``CHILDREN`` children, with an LLM call at each leaf."""
    randomness = random.Random(spans_count)
    ids = [randomness.randbytes(8) for _ in range(spans_count)]
    for first in range(0, spans_count, SPANS_PER_RECORD):
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        resource.resource.attributes.add(key="service.name").value.string_value = f"agent-{first % 3}"
        scope = resource.scope_spans.add()
        for number in range(first, min(first + SPANS_PER_RECORD, spans_count)):
            parent = ids[(number - 1) // CHILDREN] if number else b""
            span = scope.spans.add(trace_id=bytes.fromhex(trace_id), span_id=ids[number], parent_span_id=parent)
            span.name = f"step {number}"
            span.start_time_unix_nano = START_NS + number * 100_000
            span.end_time_unix_nano = span.start_time_unix_nano + randomness.randrange(1_000_000_000)
            if number * CHILDREN >= spans_count:
                span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
                span.attributes.add(key="gen_ai.request.model").value.string_value = "gpt-4o-mini"
                span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = randomness.randrange(1000)
        yield request.SerializeToString()


async def measure(spans_count: int) -> dict[str, Any]:
    """Return medians in milliseconds and frames per second, with ``spans_count`` plain spans stored."""
    with tempfile.TemporaryDirectory() as directory:
        settings = bench_settings(Path(directory), bootstrap="127.0.0.1:1")
        async with migrated_store(settings) as store:
            sets = [plain_records(spans_count), *(trace_records(trace_id, size) for size, trace_id in TRACES.items())]
            for which, records in enumerate(sets):
                for number, table in enumerate(tables_of(records, settings)):
                    await store.insert(SPANS_TABLE, table, dedup_token=f"{which}-{number}", deadline_s=60.0)
            async with open_api(settings, store=store) as port, async_playwright() as playwright:
                executable = shutil.which("chromium")
                browser = await playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
                page = await browser.new_page(viewport={"width": 1280, "height": 800})
                results = await _measure_views(page, f"http://127.0.0.1:{port}/ui", spans_count)
                await browser.close()
    return results


async def _measure_views(page: Page, address: str, spans_count: int) -> dict[str, Any]:
    results: dict[str, Any] = {"spans": spans_count}
    for view in ("spans", "traces"):
        results[f"{view}_ms"] = await _median_ms(page, f"{address}/{view}", ".rows .row")
    for size, trace_id in TRACES.items():
        results[f"trace_{size}_ms"] = await _median_ms(page, f"{address}/traces/{trace_id}", ".wf-row")
    await page.get_by_role("button", name="Open all").click()
    results["frames_per_s"] = round(await page.locator(".waterfall").evaluate(COUNT_FRAMES))
    return results


async def _median_ms(page: Page, address: str, first_row: str) -> int:
    took_ms = []
    for _ in range(ROUNDS):
        await page.goto("about:blank")
        started_s = time.perf_counter()
        await page.goto(address, wait_until="commit")
        await page.locator(first_row).first.wait_for(timeout=30_000)
        took_ms.append((time.perf_counter() - started_s) * 1000)
    return round(median(took_ms))


if __name__ == "__main__":
    child_main(measure)
