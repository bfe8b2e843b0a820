"""Write a picture of every view of the explorer to ``docs/images``, in light and dark: ``make screenshots``.

A stack of its own holds copies of the samples of ``tests/data/samples``, spread over the last hours, an application
whose two revisions have spans, a saved query, and records that cannot be stored.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from playwright.async_api import Browser, async_playwright

from common.kafka.producer import KafkaPublisher
from common.settings import KafkaSettings
from tests.support.explorer import ARGUMENTS, open_page
from tests.support.sample_records import NAMES, SAMPLES
from tests.support.stack import ROOT, RunningStack, running_stack

IMAGES = ROOT / "docs/images"
VIEWPORT = {"width": 1280, "height": 760}
SETTLED_MS = 700
HOURS = 9
COPIES = 14
SHOWN = [name for name in NAMES if not name.startswith("telemetrygen")]
AGENT = {
    "conditions": [
        {"field": "span_type", "value": "chat"},
        {"field": "resource", "key": "service.name", "value": "library-desk"},
        {"field": "status_code", "operator": "is_not", "value": "STATUS_CODE_ERROR"},
        {"field": "content", "operator": "contains", "value": "return books"},
    ]
}


REJECTED = (
    ("spans", b'{"spans": [{"span_name": "book", "trace_id": "not an id"}]}'),
    ("otlp_spans", b"not a protobuf message"),
    ("spans", b'{"spans": [{"span_name": "pay", "trace_id": "0b0b", "span_id": "0c"}]}'),
)
"""Topics, and values that the worker rejects."""


def main() -> None:
    """Write all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder) / "data") as stack:
        views = _views(stack, random.Random(5))
        asyncio.run(_write_all(stack, views))


def _views(stack: RunningStack, randomness: random.Random) -> Mapping[str, str]:
    """The address of each view, by the name of its picture."""
    revisions = _commit_two_revisions(stack)
    sent = sum(_send_copy(stack, name, randomness, revisions) for name in SHOWN for _ in range(COPIES))
    stack.ask_until(
        "/spans/groups/query",
        {"measures": [{"of": "count"}]},
        lambda answer: answer["groups"][0]["values"]["count"] >= sent,
    )
    data = {
        "filtering": {"conditions": [{"field": "status_code", "value": "STATUS_CODE_ERROR"}]},
        "formatting": {"focus": "span"},
    }
    stack.ask("/simple/queries/", {"query": {"slug": "failed-calls", "name": "Failed calls", "data": data}})
    asyncio.run(_publish_rejected(stack))
    stack.ask_until("/admin/dead-letters", None, lambda answer: answer["count"] >= len(REJECTED))
    call = stack.ask("/spans/query", {"filtering": AGENT, "windowing": {"limit": 1}})["spans"][0]
    session = stack.ask("/spans/sessions/query", {})["session_ids"][0]
    return {
        "overview": "",
        "traces": "traces?oldest=-12h",
        "spans": "spans?sort=cost&oldest=-12h",
        "trace": f"traces/{call['trace_id']}?span={call['span_id']}",
        "sessions": "sessions",
        "session": f"sessions/{session}",
        "applications": "applications",
        "compare": "applications/faq-bot/compare?from={}&to={}".format(*revisions),
        "queries": "queries",
        "dead-letters": "dead-letters",
        "status": "status",
    }


async def _publish_rejected(stack: RunningStack) -> None:
    publisher = KafkaPublisher(KafkaSettings(bootstrap=stack.kafka))
    for topic, value in REJECTED:
        await publisher.publish(topic, value)
    await publisher.close()


def _commit_two_revisions(stack: RunningStack) -> tuple[str, str]:
    first = {"parameters": {"prompt": "Be kind.\nAnswer in one sentence.", "model": "gpt-4o", "temperature": 0.7}}
    body = {"application": {"slug": "faq-bot", "name": "FAQ bot", "data": first}}
    created: dict[str, Any] = stack.ask("/simple/applications/", body)["application"]
    second = {"parameters": {"prompt": "Be kind and brief.\nAnswer in one sentence.", "model": "gpt-4o-mini"}}
    revision = {"application_variant_id": created["variant_id"], "message": "tighter tone", "data": second}
    committed = stack.ask("/applications/revisions/commit", {"application_revision": revision})["application_revision"]
    deployed = {"application_ref": {"slug": "faq-bot"}, "environment_ref": {"slug": "production"}, "message": "go live"}
    stack.ask("/applications/revisions/deploy", deployed)
    return created["revision_id"], committed["id"]


def _send_copy(stack: RunningStack, name: str, randomness: random.Random, revisions: tuple[str, str]) -> int:
    """Send a sample with new ids at some time of the last hours, as spans of one revision; return how many spans."""
    request = ExportTraceServiceRequest.FromString((SAMPLES / f"{name}.otlp_proto.bin").read_bytes())
    spans = [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
    shift_ns = (
        time.time_ns() - randomness.randrange(HOURS * 3_600_000_000_000) - max(s.end_time_unix_nano for s in spans)
    )
    fresh: dict[bytes, bytes] = {b"": b""}
    revision_id = revisions[randomness.random() < 0.4]
    for span in spans:
        span.trace_id = fresh.setdefault(span.trace_id, randomness.randbytes(16))
        span.span_id = fresh.setdefault(span.span_id, randomness.randbytes(8))
        span.parent_span_id = fresh.setdefault(span.parent_span_id, randomness.randbytes(8))
        span.start_time_unix_nano += shift_ns
        span.end_time_unix_nano += shift_ns
        span.attributes.add(key="ag.references.application_revision.id").value.string_value = revision_id
        for event in span.events:
            event.time_unix_nano += shift_ns
    body, headers = request.SerializeToString(), {"content-type": "application/x-protobuf"}
    urllib.request.urlopen(urllib.request.Request(f"{stack.api}/v1/traces", body, headers), timeout=20).close()
    return len(spans)


async def _write_all(stack: RunningStack, views: Mapping[str, str]) -> None:
    executable = shutil.which("chromium") or sys.exit("Chromium is missing (Debian's package `chromium`).")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        for scheme in ("light", "dark"):
            await _write(browser, stack, views, scheme)
        await browser.close()


async def _write(browser: Browser, stack: RunningStack, views: Mapping[str, str], scheme: str) -> None:
    async with open_page(browser, stack.api, color_scheme=scheme, viewport=VIEWPORT) as opened:
        for name, address in views.items():
            await opened.page.goto(f"{stack.api}/ui/{address}")
            await opened.page.wait_for_load_state("networkidle")
            await opened.page.wait_for_timeout(SETTLED_MS)
            await opened.page.screenshot(path=IMAGES / f"{name}-{scheme}.png")
            sys.stdout.write(f"docs/images/{name}-{scheme}.png\n")


if __name__ == "__main__":
    main()
