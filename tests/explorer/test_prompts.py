"""Two prompts compared as people compare text: message by message, line by line, word by word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from playwright.async_api import expect

from tests.support.explorer import Explorer
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]

RULES = [f"Rule {number}: name the source of fact {number}." for number in range(1, 21)]
HOSTILE = "<script>document.title = 'owned'</script> [link](javascript:alert(1))"


def _prompt(*messages: tuple[str, str], **config: Any) -> dict[str, Any]:
    listed = [{"role": role, "content": content} for role, content in messages]
    return {"parameters": {"prompt": {"messages": listed, "llm_config": config}}}


@pytest.fixture(scope="module")
def prompts(explored_stack: RunningStack) -> Mapping[str, str]:
    """Two revisions of a prompt, and their ids."""
    old = _prompt(("system", "\n".join(RULES)), ("user", "{{question}}"), temperature=0.7)
    new = _prompt(
        ("system", "\n".join([*RULES[:8], "Rule 9: always name the source of fact 9.", *RULES[9:11], *RULES[12:]])),
        ("assistant", HOSTILE),
        ("user", "{{question}}"),
        temperature=0.2,
    )
    body = {"application": {"slug": "prompts", "name": "Prompts", "data": old}}
    created = explored_stack.ask("/simple/applications/", body)["application"]
    commit = {"application_variant_id": created["variant_id"], "message": "brief", "data": new}
    committed = explored_stack.ask("/applications/revisions/commit", {"application_revision": commit})
    return {"from": created["revision_id"], "to": committed["application_revision"]["id"]}


async def test_messages_are_compared_one_by_one(prompts: Mapping[str, str], explorer: Explorer):
    await explorer.open("applications/prompts/compare", **prompts)
    titles = await explorer.texts(".change h3")
    assert [title.splitlines()[0] for title in titles] == [
        "changed Message 1, system /parameters/prompt/messages/0/content",
        "added Message 2, assistant /parameters/prompt/messages/1",
        "changed /parameters/prompt/llm_config/temperature",
    ]
    await expect(explorer.page.get_by_text("1 other message is the same.")).to_be_visible()
    await expect(explorer.page.locator(".change.added ins")).to_have_text(HOSTILE)
    assert await explorer.page.locator(".change a, .change script").count() == 0
    await expect(explorer.page.locator(".scalars del")).to_have_text("0.7")
    await expect(explorer.page.locator(".scalars ins")).to_have_text("0.2")


async def test_lines_and_words_that_differ_are_marked(prompts: Mapping[str, str], explorer: Explorer):
    await explorer.open("applications/prompts/compare", **prompts)
    text = explorer.page.locator(".change.changed .diff").first
    await expect(text.locator("mark")).to_have_text(["always "])
    await expect(text.locator("ins")).to_have_text(["Rule 9: always name the source of fact 9."])
    await expect(text.locator("del")).to_have_text([RULES[8], RULES[11]])
    await expect(text.get_by_text(RULES[0], exact=True)).to_have_count(0)
    await text.get_by_role("button", name="5 lines are the same").first.click()
    await expect(text.get_by_text(RULES[0], exact=True)).to_have_count(2)


async def test_layout_of_texts_is_in_the_address(prompts: Mapping[str, str], explorer: Explorer):
    await explorer.open("applications/prompts/compare", **prompts)
    row = explorer.page.locator(".diff tr", has=explorer.page.locator("mark")).first
    await expect(row.locator("del")).to_have_text(RULES[8])
    await explorer.page.get_by_role("button", name="One above the other").click()
    await expect(row.locator("del")).to_have_count(0)
    await expect(explorer.page).to_have_url(re.compile("layout=rows"))
    await explorer.survives(lambda: explorer.texts(".change"))


async def test_layout_follows_the_width_of_a_phone(prompts: Mapping[str, str], explorer: Explorer):
    await explorer.page.set_viewport_size({"width": 390, "height": 800})
    await explorer.open("applications/prompts/compare", **prompts)
    await expect(explorer.page.locator(".diff.rows").first).to_be_visible()
    assert await explorer.page.evaluate("document.querySelector('main').scrollWidth") <= 390
