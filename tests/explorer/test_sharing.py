"""Lists and traces out of the page: links, commands and files, as a person takes and uses them."""

from __future__ import annotations

import asyncio
import csv
import json
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Download, Page, Route, expect

from tests.support.explorer import open_page
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
TRACE_ID = "a9" * 16
HOSTILE = "</pre><script>document.title='owned'</script><img src=http://127.0.0.2/x onerror=document.title='owned'>"
QUOTES = 'it\'s "quoted" $HOME `id` \\ done'
KEY = "key-of-sharing"


def _span(number: int, parent: int | None, **members: Any) -> dict[str, Any]:
    second = f"2026-05-02T10:00:{number:02d}"
    times = {"start_time": f"{second}Z", "end_time": f"{second}.5Z"}
    ids = {"trace_id": TRACE_ID, "span_id": f"{number:016x}", "parent_id": parent and f"{parent:016x}"}
    return {**ids, **times, "span_name": f"step {number}", **members}


MESSAGES = [{"role": "user", "content": HOSTILE}, {"role": "tool", "content": "[link](javascript:alert(1))"}]
SPANS = [
    _span(1, None, span_name=HOSTILE, attributes={"quoted": QUOTES, "ag": {"data": {"inputs": {"q": "why?"}}}}),
    _span(2, 1, span_type="chat", attributes={"quoted": QUOTES, "ag": {"data": {"inputs": {"messages": MESSAGES}}}}),
    _span(3, 2, status_code="STATUS_CODE_ERROR", status_message=HOSTILE),
    _span(4, 1, attributes={"large": 2**53 + 1}),
]
LONG = "word " * 3_000 + "the end"
OWNED = {"session": {"id": "s-7"}, "user": {"id": "u-9"}, "metrics": {"tokens": {"incremental": {"total": 1_234}}}}
CALL_ARGUMENTS = {"places": [f"place {number}" for number in range(150)]}
LONG_CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "c", "function": {"name": "visit", "arguments": CALL_ARGUMENTS}}],
}
LONG_MESSAGES = [{"role": "user", "content": LONG}, LONG_CALL, {"role": "tool", "tool_call_id": "c", "content": LONG}]
OF_TRACE = {"conditions": [{"field": "trace_id", "operator": "is", "value": TRACE_ID}]}
OF_QUOTES = {"conditions": [{"field": "attributes", "key": "quoted", "operator": "is", "value": QUOTES}]}


@pytest.fixture(scope="module")
def stack(explored_stack: RunningStack) -> RunningStack:
    """The stack with one more trace."""
    explored_stack.ask("/tracing/spans/ingest", {"spans": SPANS})
    explored_stack.ask_until("/spans/query", {"filtering": OF_TRACE}, lambda answer: answer["count"] == len(SPANS))
    return explored_stack


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, stack: RunningStack) -> AsyncIterator[Page]:
    """A page that may read what it copied."""
    async with open_page(browser, stack.api, permissions=["clipboard-read", "clipboard-write"]) as opened:
        yield opened.page
        assert [problem for problem in opened.problems if "file" not in problem] == []


async def _open(page: Page, stack: RunningStack, filtering: dict[str, Any], **more: str) -> None:
    await page.goto(stack.api + "/ui/spans")
    parameters = {"filter": json.dumps(filtering), "oldest": "all", **more}
    await page.evaluate("p => { location.search = new URLSearchParams(p).toString(); }", parameters)
    await expect(page.locator(".rows .row").first).to_be_visible()


async def _saved(page: Page, item: str, folder: Path) -> Path:
    await page.get_by_role("button", name="Share", exact=True).click()
    async with page.expect_download() as waiting:
        await page.get_by_role("button", name=item, exact=True).click()
    download: Download = await waiting.value
    await download.save_as(folder / download.suggested_filename)
    return folder / download.suggested_filename


async def _run(command: str, key: str = "") -> Any:
    shell = await asyncio.create_subprocess_exec(
        "sh", "-eu", "-c", f"CLEARSPAN_KEY='{key}'\n{command}", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await shell.communicate()
    assert shell.returncode == 0
    return json.loads(output)


async def test_list_is_saved_as_a_file(page: Page, stack: RunningStack, tmp_path: Path) -> None:
    await _open(page, stack, OF_TRACE)
    saved = await _saved(page, "All spans as CSV", tmp_path)
    assert saved.name == "spans.csv"
    with saved.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["span_id"] for row in rows] == [span["span_id"] for span in reversed(SPANS)]
    lines = (await _saved(page, "All spans as JSON Lines", tmp_path)).read_text().splitlines()
    assert [json.loads(line)["span_id"] for line in lines] == [row["span_id"] for row in rows]
    assert (await _saved(page, "All spans as Parquet", tmp_path)).read_bytes()[:4] == b"PAR1"


async def test_list_of_traces_says_that_its_file_has_spans(page: Page, stack: RunningStack, tmp_path: Path) -> None:
    failed = {"conditions": [*OF_TRACE["conditions"], {"field": "status_code", "value": "STATUS_CODE_ERROR"}]}
    await page.goto(f"{stack.api}/ui/traces?{urlencode({'filter': json.dumps(failed), 'oldest': 'all'})}")
    await expect(page.locator(".rows .row")).to_have_count(1)
    lines = (await _saved(page, "The spans that match as JSON Lines", tmp_path)).read_text().splitlines()
    assert [json.loads(line)["span_name"] for line in lines] == ["step 3"]


async def test_menu_fits_a_phone(page: Page, stack: RunningStack) -> None:
    await page.set_viewport_size({"width": 390, "height": 800})
    await _open(page, stack, OF_TRACE)
    await page.get_by_role("button", name="Share", exact=True).click()
    box = await page.locator(".share .panel").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


async def test_file_is_saved_with_a_key(page: Page, stack: RunningStack, tmp_path: Path) -> None:
    async def demand_key(route: Route) -> None:
        if route.request.headers.get("authorization") == f"ApiKey {KEY}":
            await route.continue_()
        else:
            await route.fulfill(status=401, body="{}")

    await page.add_init_script(f"sessionStorage.setItem('clearspan-key-project', '{KEY}')")
    await page.route("**/spans/export?**", demand_key)
    await _open(page, stack, OF_TRACE)
    lines = (await _saved(page, "All spans as JSON Lines", tmp_path)).read_text().splitlines()
    assert len(lines) == len(SPANS)

    await page.route(
        "**/spans/export?**", lambda route: route.fulfill(status=429, json={"detail": "Too many exports."})
    )
    await page.get_by_role("button", name="Share", exact=True).click()
    await page.get_by_role("button", name="All spans as CSV").click()
    await expect(page.get_by_role("alert")).to_contain_text("Too many exports.")


async def test_command_works_as_it_is_printed(page: Page, stack: RunningStack) -> None:
    await _open(page, stack, OF_QUOTES)
    await page.get_by_role("button", name="Share", exact=True).click()
    await page.get_by_role("button", name="As a curl command").click()
    command = await page.locator("pre.command").inner_text()
    assert "Authorization" not in command
    assert [span["span_id"] for span in (await _run(command))["spans"]] == [f"{n:016x}" for n in (2, 1)]

    await page.add_init_script(f"sessionStorage.setItem('clearspan-key-project', '{KEY}')")
    await page.reload()
    await page.get_by_role("button", name="Share", exact=True).click()
    await page.get_by_role("button", name="As a curl command").click()
    command = await page.locator("pre.command").inner_text()
    assert '-H "Authorization: ApiKey $CLEARSPAN_KEY"' in command
    assert KEY not in await page.content()
    assert (await _run(command, key="any: the stack wants none"))["count"] == 2


async def test_command_of_traces_sends_what_the_list_sends(page: Page, stack: RunningStack) -> None:
    async with page.expect_request("**/traces/summaries/query") as waiting:
        await page.goto(f"{stack.api}/ui/traces?oldest=-30d&order=ascending&columns=question,attributes.tenant")
    request = await waiting.value
    await page.get_by_role("button", name="Share", exact=True).click()
    await page.get_by_role("button", name="As a curl command").click()
    command = await page.locator("pre.command").inner_text()
    assert json.loads(shlex.split(command)[-1]) == request.post_data_json
    assert request.post_data_json["include_texts"] is True
    assert request.post_data_json["include_attributes"] == ["tenant"]


async def test_link_has_times_that_stay(page: Page, stack: RunningStack) -> None:
    await _open(page, stack, {"conditions": []}, oldest="-30d", sort="duration")
    await page.get_by_role("button", name="Share", exact=True).click()
    await page.get_by_role("button", name="Copy a link whose time stays").click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    link = await page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{stack.api}/ui/spans?")
    assert "-30d" not in link
    await page.goto(link)
    await expect(page.locator(".rows .row").first).to_be_visible()
    assert {"oldest", "newest", "sort"} <= set(await page.evaluate("[...new URLSearchParams(location.search).keys()]"))


async def test_trace_is_one_file_that_runs_and_loads_nothing(
    browser: Browser, page: Page, stack: RunningStack, tmp_path: Path
) -> None:
    await page.goto(f"{stack.api}/ui/traces/{TRACE_ID}")
    saved = await _saved(page, "As an HTML file", tmp_path)
    async with open_page(browser, saved.as_uri()) as opened:
        file = opened.page
        await file.goto(saved.as_uri())
        await expect(file.locator("h1")).to_have_text(HOSTILE)
        names = file.locator(".file-span > summary bdi")
        assert await names.all_inner_texts() == [HOSTILE, "step 2", "step 3", "step 4"]
        await file.get_by_text("step 2").click()
        await expect(file.locator(".message").first).to_contain_text("<script>")
        assert await file.locator("script, img, a[href^='javascript']").count() == 0
        styled = await file.locator(".file-bar rect").first.evaluate("bar => getComputedStyle(bar).fill")
        assert styled not in ("", "rgb(0, 0, 0)")
        await file.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'x = 1'}))")
        assert await file.evaluate("typeof x") == "undefined"
        assert "owned" not in (await file.title()).replace(HOSTILE, "")
        assert [problem for problem in opened.problems if "Content Security Policy" not in problem] == []


async def test_file_holds_the_whole_conversation_and_names_whom_it_belongs_to(
    browser: Browser, page: Page, stack: RunningStack, tmp_path: Path
) -> None:
    trace_id = "3c5e" * 8
    data = {"inputs": {"messages": LONG_MESSAGES}}
    root = {
        "trace_id": trace_id,
        "span_id": "1" * 16,
        "span_type": "chat",
        "attributes": {"ag": {**OWNED, "data": data}},
    }
    stack.ask("/tracing/spans/ingest", {"spans": [root]})
    of_trace = {"conditions": [{"field": "trace_id", "value": trace_id}]}
    stack.ask_until("/spans/query", {"filtering": of_trace}, lambda answer: answer["count"] == 1)
    await page.goto(f"{stack.api}/ui/traces/{trace_id}")
    saved = await _saved(page, "As an HTML file", tmp_path)
    async with open_page(browser, saved.as_uri()) as opened:
        await opened.page.goto(saved.as_uri())
        facts = dict(
            zip(*[await opened.page.locator(f".facts {tag}").all_inner_texts() for tag in ("dt", "dd")], strict=True)
        )
        assert (facts["Session"], facts["User"], facts["Tokens"]) == ("s-7", "u-9", "1,234")
        await expect(opened.page.locator(".message").first).to_contain_text("the end")
        await opened.page.locator(".tool-call > summary").click()
        await expect(opened.page.locator(".tool-call")).to_contain_text("place 149")
        await expect(opened.page.locator(".tool-call")).to_contain_text("the end")


async def test_trace_is_saved_as_json(page: Page, stack: RunningStack, tmp_path: Path) -> None:
    await page.goto(f"{stack.api}/ui/traces/{TRACE_ID}")
    trace = json.loads((await _saved(page, "As JSON", tmp_path)).read_text())
    assert json.dumps(trace) == json.dumps(stack.ask(f"/traces/{TRACE_ID}", None)["trace"])
    assert '"large": 9007199254740993' in json.dumps(trace)


async def test_file_of_a_large_trace_says_what_it_holds(
    browser: Browser, page: Page, stack: RunningStack, tmp_path: Path
) -> None:
    trace_id, count = "b7" * 16, 20_001
    spans = [{"trace_id": trace_id, "span_id": f"{n:016x}", "span_name": f"n {n}"} for n in range(1, count + 1)]
    for first in range(0, count, 5_000):
        stack.ask("/tracing/spans/ingest", {"spans": spans[first : first + 5_000]})
    of_trace = {"conditions": [{"field": "trace_id", "value": trace_id}]}
    counted = {"filtering": of_trace, "measures": [{"of": "count"}]}
    stack.ask_until(
        "/spans/groups/query",
        counted,
        lambda answer: answer["groups"][:1] and answer["groups"][0]["values"]["count"] == count,
    )
    await page.goto(f"{stack.api}/ui/traces/{trace_id}")
    saved = await _saved(page, "As an HTML file", tmp_path)
    async with open_page(browser, saved.as_uri()) as opened:
        await opened.page.goto(saved.as_uri())
        await expect(opened.page.locator(".notice")).to_have_text("The first 2,000 of 20,001 spans.")
        await expect(opened.page.locator(".file-span")).to_have_count(2_000)
        assert opened.problems == []
    await page.get_by_role("button", name="Share", exact=True).click()
    await page.get_by_role("button", name="As JSON").click()
    await expect(page.get_by_role("alert")).to_contain_text("the page saves at most 20,000. Run clearspan export")
