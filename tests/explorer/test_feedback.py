"""Feedback in a browser: given, seen, edited, found again and deleted where the span is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final

import pytest
from playwright.async_api import Page, Route, expect

from tests.support.explorer import BEING_STORED, Explorer, give_score

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
TRACE_ID: Final = "fe" * 16


def _span_id(number: int) -> str:
    return f"fe{number:014x}"


async def _open(explorer: Explorer, number: int, *, tab: str = "scores") -> Page:
    """Send a span of the trace, a root with children, and open its panel."""
    parent = {} if number == 1 else {"parent_id": _span_id(1)}
    span = {"trace_id": TRACE_ID, "span_id": _span_id(number), "span_name": f"answer {number}", **parent}
    path = f"/spans/{TRACE_ID}/{_span_id(number)}"
    explorer.stack.ask("/tracing/spans/ingest", {"spans": [span]})
    explorer.stack.ask_until(path, None, lambda answer: answer["count"] == 1)
    await explorer.open(f"traces/{TRACE_ID}", span=_span_id(number), tab=tab)
    await expect(explorer.page.get_by_role("button", name="Give feedback")).to_be_visible()
    return explorer.page


def _scores(explorer: Explorer, number: int) -> Mapping[str, Any]:
    span = explorer.stack.ask(f"/spans/{TRACE_ID}/{_span_id(number)}", None)["span"]
    return {score["name"]: score.get("value", score.get("label")) for score in span.get("scores", [])}


async def test_thumb_is_given_changed_and_taken_back(explorer: Explorer):
    page = await _open(explorer, 1)
    thumbs = page.get_by_label("Thumbs for this span")
    await thumbs.get_by_role("button", name="Thumb up").click()
    await expect(thumbs.get_by_role("button", name="Thumb up, given once")).to_have_attribute("aria-pressed", "true")
    await expect(thumbs.get_by_role("status")).to_be_empty()
    assert _scores(explorer, 1) == {"thumb": 1}

    await page.reload()
    await thumbs.get_by_role("button", name="Thumb down").click()
    await expect(thumbs.get_by_role("button", name="Thumb down, given once")).to_have_attribute("aria-pressed", "true")
    await expect(thumbs.get_by_role("button", name="Thumb up")).to_have_attribute("aria-pressed", "false")
    await expect(thumbs.get_by_role("status")).to_be_empty()
    assert _scores(explorer, 1) == {"thumb": 0}

    await thumbs.get_by_role("button", name="Thumb down").click()
    await expect(page.locator(".score")).to_have_count(0)
    await page.reload()
    await expect(page.get_by_text("Nobody has judged this span yet.")).to_be_visible()


async def test_score_with_a_comment_is_given_edited_and_deleted(explorer: Explorer):
    page = await _open(explorer, 2)
    await page.get_by_role("button", name="Give feedback").click()
    await page.get_by_label("Name", exact=True).fill("helpful ness")
    await page.get_by_label("Number", exact=True).check()
    await page.get_by_label("helpful ness").fill("0.25")
    await page.get_by_label("comment").fill("It is <b>30</b> days.")
    await page.get_by_label("Your name").fill("Ada")
    await page.get_by_role("button", name="Save").click()
    card = page.locator(".score")
    await expect(card).to_contain_text("helpful ness 0.25")
    await expect(card).to_contain_text("It is <b>30</b> days.")
    await expect(card).to_contain_text("given by Ada")
    await expect(page.get_by_text(BEING_STORED)).to_have_count(0)
    assert _scores(explorer, 2) == {"helpful ness": 0.25, "comment": "It is <b>30</b> days."}

    await page.reload()
    await card.get_by_role("button", name="Edit").click()
    await expect(page.get_by_label("comment")).to_have_value("It is <b>30</b> days.")
    await page.get_by_label("helpful ness").fill("1")
    await page.get_by_label("comment").fill("")
    await page.get_by_label("comment").press("Control+Enter")
    await expect(card).to_contain_text("helpful ness 1")
    await expect(page.get_by_text(BEING_STORED)).to_have_count(0)
    assert _scores(explorer, 2) == {"helpful ness": 1}

    await card.get_by_role("button", name="Delete").click()
    await page.get_by_label("Delete this feedback").get_by_role("button", name="Delete").click()
    await expect(card).to_have_count(0)
    await page.reload()
    await expect(page.get_by_role("button", name="Give feedback")).to_be_visible()
    await expect(card).to_have_count(0)


async def test_names_in_use_are_offered_and_their_kind_is_known(explorer: Explorer):
    schema = {
        "type": "object",
        "properties": {"tone": {"type": "string", "enum": ["kind", "curt"]}},
        "required": ["tone"],
    }
    outputs = {"type": "object", "properties": {"outputs": schema}, "required": ["outputs"]}
    explorer.stack.ask(
        "/simple/evaluators/",
        {"evaluator": {"slug": "tone", "name": "tone", "data": {"schemas": {"outputs": outputs}}}},
    )
    page = await _open(explorer, 3)
    await page.get_by_role("button", name="Give feedback").click()
    await expect(page.locator("#score-names option[value=tone]")).to_be_attached()
    await page.get_by_label("Name", exact=True).fill("tone")
    await expect(page.get_by_label("tone").locator("option")).to_have_text(["choose…", "kind", "curt"])
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert")).to_have_text("tone: give a value.")
    await page.get_by_label("tone").select_option("kind")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".score")).to_contain_text("tone kind")


async def test_feedback_is_found_again_from_its_value(explorer: Explorer):
    page = await _open(explorer, 4)
    await give_score(page, "found again", "Label", "wrong")
    await page.locator(".score").get_by_role("button", name="Filter by wrong").click()
    await page.get_by_role("button", name="Only this").click()
    await expect(page.locator(".rows .row")).to_have_count(1)
    await expect(page.locator(".rows .row")).to_contain_text("answer 4")


async def test_failure_is_said_and_what_was_typed_stays(explorer: Explorer):
    page = await _open(explorer, 5)

    async def refuse(route: Route) -> None:
        await route.fulfill(status=503, json={"detail": {"message": "Kafka is not available."}})

    await page.get_by_role("button", name="Give feedback").click()
    await page.get_by_label("comment").fill("Do not lose this.")
    await page.get_by_label("up", exact=True).check()
    await page.route("**/annotations/", refuse)
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert")).to_have_text("Kafka is not available.")
    await expect(page.get_by_label("comment")).to_have_value("Do not lose this.")
    await expect(page.locator(".score")).to_have_count(0)
    await page.unroute("**/annotations/")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".score")).to_contain_text("Do not lose this.")


async def test_feedback_that_is_not_stored_yet_says_so(explorer: Explorer):
    page = await _open(explorer, 9)

    async def time_out(route: Route) -> None:
        if "annotation_links" in (route.request.post_data or ""):
            await route.fulfill(status=504, json={"detail": {"message": "spans/0/7 is not stored yet."}})
        else:
            await route.fallback()

    await page.route("**/annotations/query", time_out)
    await page.get_by_label("Thumbs for this span").get_by_role("button", name="Thumb up").click()
    card = page.locator(".score")
    await expect(card).to_contain_text("It was accepted, but is not stored yet: spans/0/7 is not stored yet.")
    await expect(page.get_by_label("Thumbs for this span").get_by_role("status")).to_have_text("not stored yet")
    await page.unroute("**/annotations/query")
    await card.get_by_role("button", name="Look again").click()
    await expect(page.get_by_label("Thumbs for this span").get_by_role("status")).to_be_empty()
    await expect(card).to_contain_text("thumb up")


async def test_feedback_that_is_being_stored_cannot_be_changed(explorer: Explorer):
    page = await _open(explorer, 20)
    stored = asyncio.Event()

    async def wait(route: Route) -> None:
        if "annotation_links" in (route.request.post_data or ""):
            await stored.wait()
        await route.fallback()

    await page.route("**/annotations/query", wait)
    thumbs, card = page.get_by_label("Thumbs for this span"), page.locator(".score")
    await thumbs.get_by_role("button", name="Thumb up").click()
    await expect(thumbs.get_by_role("status")).to_have_text("being stored…")
    buttons = [thumbs.get_by_role("button", name=name) for name in ("Thumb up", "Thumb down")]
    buttons += [card.get_by_role("button", name=name) for name in ("Edit", "Delete")]
    for button in buttons:
        await expect(button).to_be_disabled()
        await expect(button).to_have_attribute("title", "It is being stored.")
    stored.set()
    for button in buttons:
        await expect(button).to_be_enabled()
    await expect(buttons[0]).to_have_attribute("title", "Remove")
    await buttons[0].click()
    await expect(card).to_have_count(0)


async def test_deletion_that_deletes_nothing_is_said(explorer: Explorer):
    page = await _open(explorer, 21)
    thumbs, card = page.get_by_label("Thumbs for this span"), page.locator(".score")
    await thumbs.get_by_role("button", name="Thumb up").click()
    await expect(thumbs.get_by_role("status")).to_be_empty()

    async def delete_nothing(route: Route) -> None:
        if route.request.method == "DELETE":
            await route.fulfill(json={"count": 0, "link": None})
        else:
            await route.fallback()

    await page.route("**/annotations/*", delete_nothing)
    await card.get_by_role("button", name="Delete").click()
    await page.get_by_label("Delete this feedback").get_by_role("button", name="Delete").click()
    await expect(card.get_by_role("alert")).to_contain_text("This feedback is not stored")
    await thumbs.get_by_role("button", name="Thumb up").click()
    await expect(thumbs.get_by_role("alert")).to_contain_text("This feedback is not stored")
    await expect(card).to_contain_text("thumb up")


async def test_late_answer_about_an_earlier_change_is_ignored(explorer: Explorer):
    page = await _open(explorer, 22)
    thumbs, card = page.get_by_label("Thumbs for this span"), page.locator(".score")
    await thumbs.get_by_role("button", name="Thumb up").click()
    await expect(thumbs.get_by_role("status")).to_be_empty()
    await card.get_by_role("button", name="Edit").click()
    late, queries = asyncio.Event(), []

    async def answer_late(route: Route) -> None:
        if "annotation_links" in (route.request.post_data or ""):
            queries.append(route)
            if len(queries) == 1:
                await late.wait()
                return await route.fulfill(status=504, json={"detail": {"message": "spans/0/7 is not stored yet."}})
        return await route.fallback()

    await page.route("**/annotations/query", answer_late)
    await thumbs.get_by_role("button", name="Thumb down").click()
    await expect(thumbs.get_by_role("status")).to_have_text("being stored…")
    await page.get_by_label("comment").fill("the later change")
    await page.get_by_role("button", name="Save").click()
    await expect(card).to_contain_text("the later change")
    await expect(thumbs.get_by_role("status")).to_be_empty()
    async with page.expect_response(lambda response: response.status == 504) as answered:
        late.set()
    await (await answered.value).finished()
    await page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    await expect(thumbs.get_by_role("status")).to_be_empty()
    await expect(card.get_by_role("alert")).to_have_count(0)


async def test_key_without_write_gives_feedback_of_a_new_name(explorer: Explorer):
    async def may_send(route: Route) -> None:
        await route.fulfill(json={"project_name": "default", "scopes": ["read", "ingest"]})

    async def refuse(route: Route) -> None:
        await route.fulfill(status=403, json={"detail": {"message": "This key has no scope 'write'."}})

    await explorer.page.route("**/projects/current", may_send)
    await explorer.page.route("**/simple/evaluators/", refuse)
    page = await _open(explorer, 23)
    await give_score(page, "politeness", "Number", "3")
    assert _scores(explorer, 23) == {"politeness": 3}


async def test_names_without_ascii_letters_have_evaluators_of_their_own(explorer: Explorer):
    page = await _open(explorer, 24)
    for name, value in (("质量", "1"), ("准确", "0.5")):
        await give_score(page, name, "Number", value)
    assert _scores(explorer, 24) == {"质量": 1, "准确": 0.5}


async def test_value_of_another_kind_is_not_kept(explorer: Explorer):
    page = await _open(explorer, 25)
    await page.get_by_role("button", name="Give feedback").click()
    await page.get_by_label("Name", exact=True).fill("length of it")
    for kind, value, other in (("Label", "long", "Number"), ("Label", "5", "Yes or no"), ("Yes or no", None, "Number")):
        await page.get_by_label(kind, exact=True).check()
        if value is None:
            await page.get_by_label("yes", exact=True).check()
        else:
            await page.get_by_label("length of it").fill(value)
        await page.get_by_label(other, exact=True).check()
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("alert")).to_have_text("length of it: give a value.")
    await expect(page.locator(".score")).to_have_count(0)


async def test_key_that_may_only_read_gives_nothing(explorer: Explorer):
    async def only_read(route: Route) -> None:
        await route.fulfill(json={"project_name": "default", "scopes": ["read"]})

    await explorer.page.route("**/projects/current", only_read)
    page = await _open(explorer, 7)
    await expect(page.get_by_role("button", name="Give feedback")).to_be_disabled()
    await expect(page.get_by_text("Use a key with the scope “ingest”.")).to_be_visible()
    await expect(page.get_by_role("button", name="Thumb up")).to_be_disabled()


SHIFTS = """window.shifted = 0;
new PerformanceObserver(list => { for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value; })
  .observe({type: 'layout-shift', buffered: true});"""


async def test_nothing_moves_while_feedback_loads(explorer: Explorer):
    await explorer.page.add_init_script(SHIFTS)
    page = await _open(explorer, 8)
    thumbs = page.get_by_label("Thumbs for this span")
    await thumbs.get_by_role("button", name="Thumb up").click()
    await expect(thumbs.get_by_role("status")).to_be_empty()
    await page.reload()
    await expect(page.locator(".score")).to_contain_text("thumb up")
    await page.wait_for_load_state("networkidle")
    assert await page.evaluate("window.shifted") < 0.1


async def test_trace_lists_what_was_said_about_its_spans(explorer: Explorer):
    await _open(explorer, 1)  # the root
    page = await _open(explorer, 6)
    await page.get_by_label("Thumbs for this span").get_by_role("button", name="Thumb up").click()
    await expect(page.get_by_label("Thumbs for this span").get_by_role("status")).to_be_empty()
    await page.get_by_role("button", name="Close the panel").click()
    menu = page.locator(".trace-feedback")
    await menu.get_by_role("button", name=re.compile("^Feedback on [1-9]")).click()
    await expect(menu.get_by_role("listitem").filter(has_text="answer 6")).to_contain_text("thumb up")
    await menu.get_by_label("Thumbs for this trace").get_by_role("button", name="Thumb down").click()
    await expect(menu.get_by_role("listitem").filter(has_text="answer 1")).to_contain_text("thumb down")
    await menu.get_by_role("link", name="answer 6").click()
    await expect(page.locator(".span-panel h2")).to_contain_text("answer 6")
    await expect(page.locator(".score")).to_contain_text("thumb up")
