"""Dead letters and the status of the stack, in a browser."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from common.kafka.producer import KafkaPublisher
from common.settings import KafkaSettings
from tests.support.explorer import Explorer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]
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


async def test_status_shows_partitions_and_versions(explorer: Explorer):
    status = explorer.stack.ask("/admin/status")
    await explorer.open("status")
    await expect(explorer.page.locator("tbody tr")).to_have_count(len(status["partitions"]))
    await expect(explorer.page.locator(".tile", has_text="Version")).to_contain_text(status["versions"]["clearspan"])
