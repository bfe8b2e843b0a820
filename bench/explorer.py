"""Measures the explorer in Chromium: views, opening a trace, and frames per second while one scrolls.

A view counts as open when its first row is visible, and as interactive when the page can take a key after that; the
time to it is also taken from the last answer of the API before. The API and the engine run in this process, Chromium on
the same cores.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from playwright.async_api import Page, async_playwright

from bench.harness import bench_settings, child_main, median, migrated_store
from bench.ingest import tables_of
from bench.records import START_NS
from bench.varied import llm_records
from common.clickhouse.span_columns import SPANS_TABLE
from query_api.http.app import open_api

ROUNDS: Final = 5
TRACES: Final = {1_000: "11" * 16, 100_000: "22" * 16}
"""The sizes of the traces that are opened, and their ids."""

CHILDREN: Final = 8
SPANS_PER_RECORD: Final = 500
ARGUMENTS: Final = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]

NOTE_ANSWERS: Final = """
const fetched = window.fetch;
window.answeredAt = 0;
window.fetch = async (...request) => {
  const response = await fetched(...request);
  response.clone().arrayBuffer().then(() => { window.answeredAt = performance.now(); }, () => {});
  return response;
};
"""
UNTIL_INTERACTIVE: Final = """
(first) => new Promise((done) => {
  const look = () => {
    if (!document.querySelector(first)?.checkVisibility()) return requestAnimationFrame(look);
    const answeredAt = window.answeredAt;
    setTimeout(() => done([performance.now(), performance.now() - answeredAt]));
  };
  look();
})
"""
"""Milliseconds until the page can take a key with the first row shown: since its begin, and since its data came."""

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
    """Return medians in milliseconds and frames per second, with ``spans_count`` model calls stored."""
    with tempfile.TemporaryDirectory() as directory:
        settings = bench_settings(Path(directory), bootstrap="127.0.0.1:1")
        async with migrated_store(settings) as store:
            sets = [llm_records(spans_count), *(trace_records(trace_id, size) for size, trace_id in TRACES.items())]
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
    await page.add_init_script(NOTE_ANSWERS)
    views = {view: (view, ".rows .row") for view in ("spans", "traces", "sessions", "users")}
    views |= {"overview": ("", ".breakdown tbody tr")}
    views |= {f"trace_{size}": (f"traces/{trace_id}", ".wf-row") for size, trace_id in TRACES.items()}
    for view, (path, first_row) in views.items():
        opened_ms, after_data_ms = await _medians_ms(page, f"{address}/{path}", first_row)
        results |= {f"{view}_ms": opened_ms, f"{view}_after_data_ms": after_data_ms}
    await page.get_by_role("button", name="Open all").click()
    results["frames_per_s"] = round(await page.locator(".waterfall").evaluate(COUNT_FRAMES))
    return results


async def _medians_ms(page: Page, address: str, first_row: str) -> tuple[int, int]:
    took_ms = []
    for _ in range(ROUNDS):
        await page.goto("about:blank")
        await page.goto(address, wait_until="commit")
        took_ms.append(await page.evaluate(UNTIL_INTERACTIVE, first_row))
    opened_ms, after_data_ms = (round(median(each)) for each in zip(*took_ms, strict=True))
    return opened_ms, after_data_ms


if __name__ == "__main__":
    child_main(measure)
