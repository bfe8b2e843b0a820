"""Dead letters and the status of the stack, in a browser."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from common.kafka.producer import KafkaPublisher
from common.settings import KafkaSettings
from tests.support.explorer import Explorer

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
PROJECT_WITHOUT_LETTERS = "00000000-0000-4000-8000-000000000099"
HOSTILE = b'{"spans": [{"span_name": "<img src=x onerror=alert(1)>", "trace_id": "not an id"}]}'


async def _publish(explorer: Explorer, topic: str, value: bytes) -> None:
    publisher = KafkaPublisher(KafkaSettings(bootstrap=explorer.stack.kafka))
    try:
        await publisher.publish(topic, value)
    finally:
        await publisher.close()


async def test_dead_letter_is_shown_as_text_and_hex_and_dropped(explorer: Explorer):
    await _publish(explorer, "spans", HOSTILE)
    explorer.stack.ask_until("/admin/dead-letters", None, lambda answer: answer["count"] == 1)
    await explorer.open("dead-letters")
    await expect(explorer.page.locator("tbody tr")).to_have_count(1)
    await explorer.page.locator("tbody tr a").click()
    await expect(explorer.page.locator(".bytes")).to_contain_text("<img src=x onerror=alert(1)>")
    await explorer.page.get_by_role("button", name="Show as hex").click()
    await expect(explorer.page.locator(".bytes")).to_contain_text("000000  7b 22 73 70")
    await explorer.page.get_by_role("button", name="Drop").click()
    await explorer.page.get_by_role("button", name="Drop it").click()
    await expect(explorer.page.locator(".notice")).to_have_text("Dropped.")
    assert explorer.stack.ask("/admin/dead-letters")["count"] == 0


async def test_all_dead_letters_that_match_are_dropped_and_no_others(explorer: Explorer):
    for topic in ("spans", "spans", "otlp_spans"):
        await _publish(explorer, topic, HOSTILE)
    explorer.stack.ask_until("/admin/dead-letters", None, lambda answer: answer["count"] == 3)
    await explorer.open("dead-letters", topic="spans", oldest="-1h")
    await expect(explorer.page.locator("tbody tr")).to_have_count(2)
    listed = explorer.stack.ask("/admin/dead-letters?topic=spans")["dead_letters"]
    assert await explorer.texts("tbody tr code:first-child") == [letter["code"] for letter in listed]
    await explorer.survives(lambda: explorer.texts("tbody tr"))
    await explorer.page.go_back()
    await explorer.page.get_by_role("button", name="Drop all…").click()
    await expect(explorer.page.get_by_role("dialog")).to_contain_text("Drop 2 dead letters?")
    await explorer.page.get_by_role("button", name="Drop them").click()
    await expect(explorer.page.locator(".notice.empty")).to_contain_text("No open dead letter matches")
    assert [letter["topic"] for letter in explorer.stack.ask("/admin/dead-letters")["dead_letters"]] == ["otlp_spans"]
    await explorer.open("dead-letters", project=PROJECT_WITHOUT_LETTERS)
    await expect(explorer.page.locator(".notice.empty")).to_be_visible()


async def test_status_shows_partitions_and_versions(explorer: Explorer):
    # On a busy machine they may be missing at first.
    status = explorer.stack.ask_until("/admin/status", None, lambda answer: answer["partitions"])
    await explorer.open("status")
    await expect(explorer.page.locator("tbody tr")).to_have_count(len(status["partitions"]))
    await expect(explorer.page.locator(".tile", has_text="Version")).to_contain_text(status["versions"]["clearspan"])
    await explorer.survives(lambda: explorer.texts("tbody tr td:first-child"), other="queries")
