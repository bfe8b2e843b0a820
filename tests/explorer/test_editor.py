"""Applications created and changed in a browser: prompts edited, committed, deployed and taken back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest
from playwright.async_api import Dialog, Page, Route, expect

from tests.support.explorer import Explorer
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]

SCHEMA = {
    "type": "object",
    "properties": {
        "temperature": {"type": "number", "maximum": 2, "description": "How free the answer is."},
        "style": {"enum": ["short", "long"]},
        "tries": {"type": "integer", "default": 3},
    },
}
MESSAGES = [
    {"role": "system", "content": "Be kind.\nName your sources.", "cache": {"ttl": 60}},
    {"role": "user", "content": "{{question}}"},
]
DATA = {
    "parameters": {
        "messages": MESSAGES,
        "temperature": 1.0,
        "style": "short",
        "big": 12345678901234567890,
        "tags": ["a"],
    },
    "schemas": {"parameters": SCHEMA},
    "headers": {"x-team": "cx"},
}
_numbers = count(1)


def _created(stack: RunningStack, data: Mapping[str, Any] = DATA) -> tuple[str, str]:
    """Create an application with one version of one variant; return its slug and the id of the revision."""
    slug = f"edited-{next(_numbers)}"
    application = stack.ask("/applications/", {"application": {"slug": slug, "name": slug.title(), "flags": {}}})
    variant = {"application_id": application["application"]["id"], "slug": f"{slug}.main", "name": "Main"}
    stack.ask("/applications/variants/", {"application_variant": variant})
    return slug, _commit(stack, slug, data, message="first")


def _commit(stack: RunningStack, slug: str, data: Mapping[str, Any], *, message: str) -> str:
    [variant] = stack.ask("/applications/variants/query", {"application_variant": {"slug": f"{slug}.main"}})[
        "application_variants"
    ]
    revision = {"application_variant_id": variant["id"], "message": message, "data": data}
    answer = stack.ask("/applications/revisions/commit", {"application_revision": revision})
    return str(answer["application_revision"]["id"])


def _head(stack: RunningStack, variant: str) -> dict[str, Any]:
    answer = stack.ask("/applications/revisions/retrieve", {"application_variant_ref": {"slug": variant}})
    revision: dict[str, Any] = answer["application_revision"]
    return revision


def _text_of_message(page: Page, number: int) -> Any:
    return page.get_by_label(f"Text of message {number}")


async def test_edited_message_is_committed_and_nothing_else_changes(explorer: Explorer):
    slug, _ = _created(explorer.stack)
    page = explorer.page
    await explorer.open(f"applications/{slug}")
    await page.get_by_role("link", name="Edit").click()
    await expect(page.get_by_role("button", name="Commit version 1")).to_be_disabled()
    await _text_of_message(page, 1).fill("Be kind and brief.\nName your sources.")
    await expect(page.locator(".change mark")).to_have_text(" and brief")
    await page.get_by_label("Message", exact=True).fill("tighter tone")
    await page.get_by_role("button", name="Commit version 1").click()
    await expect(page.get_by_role("heading", name=f"{slug}, version 1")).to_be_visible()
    head = _head(explorer.stack, f"{slug}.main")
    expected = json.loads(json.dumps(DATA))
    expected["parameters"]["messages"][0]["content"] = "Be kind and brief.\nName your sources."
    assert (json.dumps(head["data"], sort_keys=True), head["message"]) == (
        json.dumps(expected, sort_keys=True), "tighter tone")  # fmt: skip
    path = "/audit?operation=commit_application_revision&limit=1"
    audit = explorer.stack.ask_until(path, None, lambda answer: answer["entries"][0]["outcome"] == "done")
    assert head["id"] in [entity["id"] for entity in audit["entries"][0]["entities"]]


async def test_messages_are_added_moved_and_removed(explorer: Explorer):
    slug, _ = _created(explorer.stack)
    page = explorer.page
    await explorer.open(f"applications/{slug}/edit", variant=f"{slug}.main")
    await page.get_by_role("button", name="Add a message").click()
    await _text_of_message(page, 3).fill("Of course.")
    await page.get_by_role("button", name="Move message 3 up").click()
    await expect(_text_of_message(page, 2)).to_have_value("Of course.")
    await page.get_by_role("button", name="Remove message 3").click()
    await page.get_by_label("Role of message 2").select_option("developer")
    await page.get_by_role("button", name="Commit version 1").click()
    await expect(page.get_by_role("heading", name=f"{slug}, version 1")).to_be_visible()
    messages = _head(explorer.stack, f"{slug}.main")["data"]["parameters"]["messages"]
    assert messages == [MESSAGES[0], {"role": "developer", "content": "Of course."}]


async def test_parameters_are_checked_by_their_schema(explorer: Explorer):
    slug, _ = _created(explorer.stack)
    page = explorer.page
    await explorer.open(f"applications/{slug}/edit", variant=f"{slug}.main")
    await expect(page.get_by_text("How free the answer is. · at most 2")).to_be_visible()
    temperature = page.get_by_label("temperature")
    await expect(temperature).to_have_value("1.0")
    await temperature.fill("warm")
    await expect(page.get_by_text("This must be a number.")).to_be_visible()
    await expect(page.get_by_text("Correct what is marked above first.")).to_be_visible()
    await temperature.fill("7")
    await expect(page.get_by_text("7 is greater than the maximum of 2")).to_be_visible()
    await expect(page.get_by_text("1 value does not match the schema of the parameters.")).to_be_visible()
    await temperature.fill("0.50")
    await expect(page.get_by_text("does not match the schema")).to_have_count(0)
    await page.get_by_label("style").select_option("long")
    await page.get_by_role("button", name="+ tries").click()
    await expect(page.get_by_label("tries")).to_have_value("3")
    await page.get_by_role("button", name="Commit version 1").click()
    await expect(page.get_by_role("heading", name=f"{slug}, version 1")).to_be_visible()
    parameters = _head(explorer.stack, f"{slug}.main")["data"]["parameters"]
    assert [parameters[name] for name in ("temperature", "style", "tries")] == [0.5, "long", 3]


async def test_everything_can_be_edited_as_json(explorer: Explorer):
    slug, _ = _created(explorer.stack)
    page = explorer.page
    await explorer.open(f"applications/{slug}/edit", variant=f"{slug}.main")
    await page.get_by_role("tab", name="JSON").click()
    text = page.get_by_label("The data as JSON")
    whole = await text.input_value()
    assert '"big": 12345678901234567890' in whole
    assert '"temperature": 1.0' in whole
    await text.fill(whole.replace('"cx"', '"ops"') + "}")
    await expect(page.get_by_text("This is not JSON")).to_be_visible()
    await expect(page.get_by_role("button", name="Commit version 1")).to_be_disabled()
    await text.fill(whole.replace('"cx"', '"ops"').replace('"headers"', '"heders"'))
    await expect(page.get_by_role("alert")).to_contain_text("heders")
    await text.fill(whole.replace('"cx"', '"ops"'))
    await expect(page.locator(".change h3")).to_contain_text("/headers/x-team")
    await page.get_by_role("tab", name="Prompt and parameters").click()
    await page.get_by_role("button", name="Commit version 1").click()
    await expect(page.get_by_role("heading", name=f"{slug}, version 1")).to_be_visible()
    assert _head(explorer.stack, f"{slug}.main")["data"]["headers"] == {"x-team": "ops"}


async def test_concurrent_commit_is_a_conflict_that_keeps_what_was_typed(explorer: Explorer):
    slug, _ = _created(explorer.stack)
    page = explorer.page
    await explorer.open(f"applications/{slug}/edit", variant=f"{slug}.main")
    await _text_of_message(page, 2).fill("Q: {{question}}")
    await expect(page.get_by_role("heading", name="What will change: 1 change")).to_be_visible()
    theirs = json.loads(json.dumps(DATA))
    theirs["parameters"]["messages"][0]["content"] = "Be funny."
    _commit(explorer.stack, slug, theirs, message="funny")
    await page.get_by_role("button", name="Commit version 1").click()
    conflict = page.get_by_role("alert")
    await expect(conflict).to_contain_text("Somebody committed version 1 while you were editing version 0: funny")
    await conflict.get_by_role("button", name="Go on from version 1").click()
    await expect(_text_of_message(page, 2)).to_have_value("Q: {{question}}")
    await expect(page.get_by_role("heading", name="What will change: 2 changes")).to_be_visible()
    await _text_of_message(page, 1).fill("Be funny.")
    await expect(page.get_by_role("heading", name="What will change: 1 change")).to_be_visible()
    await page.get_by_role("button", name="Commit version 2").click()
    await expect(page.get_by_role("heading", name=f"{slug}, version 2")).to_be_visible()
    contents = [each["content"] for each in _head(explorer.stack, f"{slug}.main")["data"]["parameters"]["messages"]]
    assert contents == ["Be funny.", "Q: {{question}}"]


async def test_leaving_with_unsaved_changes_asks(explorer: Explorer):
    slug, _ = _created(explorer.stack)
    page = explorer.page
    questions: list[str] = []

    async def stay(dialog: Dialog) -> None:
        questions.append(dialog.message)
        await dialog.dismiss()

    await explorer.open(f"applications/{slug}")
    await page.get_by_role("link", name="Edit").click()
    await _text_of_message(page, 2).fill("typed")
    page.on("dialog", stay)
    await page.get_by_role("link", name="Sessions").click()
    await expect(_text_of_message(page, 2)).to_have_value("typed")
    async with page.expect_event("dialog"):
        await page.evaluate("history.back()")
    await expect(_text_of_message(page, 2)).to_have_value("typed")
    page.remove_listener("dialog", stay)
    page.once("dialog", lambda dialog: dialog.accept())
    await page.get_by_role("link", name="Sessions").click()
    await page.wait_for_url("**/ui/sessions")
    assert questions[0] == "Leave this page? What you changed is not committed."


async def test_application_is_created_and_its_prompt_written(explorer: Explorer):
    page = explorer.page
    await explorer.open("applications")
    await page.get_by_role("button", name="New application").click()
    await page.get_by_label("Name").fill("Tür & Tor")
    await expect(page.get_by_label("Slug")).to_have_value("tur-tor")
    await page.get_by_label("Slug").fill("edited-door")
    await page.get_by_role("button", name="Create, and write its prompt").click()
    await expect(page.get_by_role("heading", name="edited-door: edit Main")).to_be_visible()
    await _text_of_message(page, 1).fill("You open doors.")
    await page.get_by_role("button", name="Commit version 0").click()
    await expect(page.get_by_role("heading", name="edited-door, version 0")).to_be_visible()
    await expect(page.locator(".prompt-message pre").first).to_have_text("You open doors.")
    await explorer.open("applications")
    await page.get_by_role("button", name="New application").click()
    await page.get_by_label("Name").fill("Again")
    await page.get_by_label("Slug").fill("edited-door")
    await page.get_by_role("button", name="Create, and write its prompt").click()
    await expect(page.get_by_role("alert")).to_contain_text("'edited-door' already exists")


async def test_variant_is_forked_and_archived(explorer: Explorer):
    slug, revision = _created(explorer.stack)
    page = explorer.page
    await explorer.open(f"applications/{slug}/revisions/{revision}")
    await page.get_by_role("button", name="Fork from here").click()
    await page.get_by_label("Name").fill("Bold")
    await expect(page.get_by_label("Slug")).to_have_value(f"{slug}.bold")
    await page.get_by_role("button", name="Fork, and edit it").click()
    await expect(page.get_by_role("heading", name=f"{slug}: edit Bold")).to_be_visible()
    await explorer.open(f"applications/{slug}")
    card = page.locator(".card", has=page.get_by_role("heading", name="Bold"))
    await expect(card).to_contain_text("forked from Main, v0")
    page.once("dialog", lambda dialog: dialog.accept())
    await card.get_by_role("button", name="Archive").click()
    await expect(card).to_have_count(0)
    await page.get_by_label("Archived variants too").check()
    await card.get_by_role("button", name="Restore").click()
    await expect(card.get_by_role("button", name="Archive")).to_be_visible()


async def test_revision_is_deployed_after_its_changes_were_shown(explorer: Explorer):
    slug, first = _created(explorer.stack)
    second = _commit(explorer.stack, slug, {"parameters": {"prompt": "Be brief."}}, message="second")
    page = explorer.page
    await explorer.open(f"applications/{slug}/revisions/{first}")
    await page.get_by_role("link", name="Deploy").click()
    await page.get_by_label("Environment").select_option("development")
    await expect(page.get_by_text(f"Nothing of {slug} is deployed there yet.")).to_be_visible()
    await page.get_by_role("button", name="Deploy version 0 to Development").click()
    await expect(page.get_by_text("Version 0 is deployed to Development.")).to_be_visible()
    await explorer.open(f"applications/{slug}/deploy", revision=second, environment="development")
    await expect(page.get_by_role("heading", name="What will change: 8 changes")).to_be_visible()
    removed = page.locator(".change.removed", has_text="/parameters/messages")
    assert await removed.locator("h4").all_inner_texts() == ["Message 1, system", "Message 2, user"]
    await expect(page.get_by_text("No span of this time refers to either version.")).to_be_visible()
    await page.get_by_label("Message").fill("go live")
    await page.get_by_role("button", name="Deploy version 1 to Development").click()
    await expect(page.get_by_text("Version 1 is deployed to Development.")).to_be_visible()
    await page.get_by_role("link", name="Its figures and spans").click()
    await expect(page.get_by_role("heading", name=f"{slug}, version 1")).to_be_visible()
    answer = explorer.stack.ask(
        "/applications/revisions/retrieve",
        {"environment_ref": {"slug": "development"}, "key": f"{slug}.revision"},
    )
    assert answer["application_revision"]["id"] == second
    await explorer.open(f"applications/{slug}")
    await expect(page.locator(".versions tr", has_text="second")).to_contain_text("in development")


async def test_older_version_is_committed_again(explorer: Explorer):
    slug, first = _created(explorer.stack, {"parameters": {"prompt": "one"}})
    _commit(explorer.stack, slug, {"parameters": {"prompt": "two"}}, message="second")
    page = explorer.page
    await explorer.open(f"applications/{slug}/revisions/{first}")
    await page.get_by_role("link", name="Go back to this").click()
    await expect(page.locator(".change ins")).to_have_text("one")
    await page.get_by_role("button", name="Commit it as version 2").click()
    await expect(page.get_by_role("heading", name=f"{slug}, version 2")).to_be_visible()
    head = _head(explorer.stack, f"{slug}.main")
    assert (head["data"], head["message"]) == ({"parameters": {"prompt": "one"}}, "Revert to version 0")


async def test_key_that_may_only_read_is_told_so(explorer: Explorer):
    slug, revision = _created(explorer.stack)
    page = explorer.page

    async def read_only(route: Route) -> None:
        await route.fulfill(json={"project_name": "p", "scopes": ["read"]})

    await page.route("**/projects/current", read_only)
    await explorer.open(f"applications/{slug}/deploy", revision=revision, environment="staging")
    await expect(page.get_by_text("Your key may only read.")).to_be_visible()
    await expect(page.get_by_role("button", name="Deploy version 0")).to_be_disabled()
    await explorer.open("applications")
    await expect(page.get_by_role("button", name="New application")).to_be_disabled()


async def test_refused_change_is_said_in_the_words_of_the_api(explorer: Explorer):
    slug, revision = _created(explorer.stack)
    page = explorer.page
    words = "This key lacks the scope `write`, which this request needs; it has `read`."

    async def refuse(route: Route) -> None:
        await route.fulfill(status=403, json={"detail": words})

    await page.route("**/revisions/deploy", refuse)
    await explorer.open(f"applications/{slug}/deploy", revision=revision, environment="staging")
    await page.get_by_role("button", name="Deploy version 0").click()
    await expect(page.get_by_role("alert")).to_contain_text(words)
