"""Markdown in messages: shown as people read it, inert whatever it holds, and as it was written on request."""

from __future__ import annotations

from typing import Any, Final

import pytest
from playwright.async_api import Locator, expect

from tests.support.explorer import Explorer

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
TRACE_ID, SPAN_ID = "3a" * 16, "3b" * 8
ANSWER: Final = """# Refunds
You can return it **within 30 days** of *delivery*, see [the policy](https://shop.example/policy).
First line,
second line with snake_case_names and `a * b`.
2019. That was a year.

1. Open the order
   - sealed
   - opened: ~~nothing~~
2. Print the label

| what | days |
|:--|--:|
| books<br>maps | 30 |
| films \\| series | 14 |

> Keep **_the_ receipt**.

```python
print("**not bold**")
```"""

HOSTILE: Final = """<script>document.title = 'owned'</script> <img src=x onerror="document.title = 'owned'">
[run](javascript:document.title='owned') [data](data:text/html,<script>1</script>) [user](https://bank.example@evil.example/)
![pixel](https://evil.example/pixel.png) [real](https://evil.example/login) <https://evil.example/auto>
[file](file:///etc/passwd) [relative](/admin) [vb](vbscript:x) [bad](https://) [mail](mailto:a@b.example)
<svg onload="document.title = 'owned'"></svg> &lt;b&gt;"""

LINKS: Final = [
    "https://evil.example/pixel.png", "https://evil.example/login", "https://evil.example/auto", "mailto:a@b.example"
]  # fmt: skip
REPEATED: Final = (
    "*a _b ",
    "[",
    "[a](",
    "![a](((",
    "`a ``",
    "> ",
    "- ",
    "  - a\n",
    "|a",
    "~~x ",
    "**a*b",
    "# a\n",
    "\\",
)
"""Each many times is a text that slow readers of Markdown need minutes for."""


def _send(explorer: Explorer, text: str, number: int = 0) -> None:
    messages = {"inputs": {"messages": [{"role": "user", "content": "*Question*"}]}}
    messages["outputs"] = {"messages": [{"role": "assistant", "content": text}]}
    span: dict[str, Any] = {
        "trace_id": TRACE_ID, "span_id": f"{number:02x}{SPAN_ID[2:]}", "span_name": "answer", "span_type": "chat",
        "attributes": {"ag": {"type": {"span": "chat"}, "data": messages}},
    }  # fmt: skip
    explorer.stack.ask("/tracing/spans/ingest", {"spans": [span]})
    explorer.stack.ask_until(f"/spans/{TRACE_ID}/{span['span_id']}", None, lambda answer: answer["count"] == 1)


async def _open(explorer: Explorer, number: int = 0) -> Locator:
    """Open the span; return the text of the answer."""
    await explorer.open(f"traces/{TRACE_ID}", span=f"{number:02x}{SPAN_ID[2:]}")
    answer = explorer.page.locator(".message.output")
    await expect(answer).to_be_visible()
    return answer


async def test_answer_reads_as_it_was_meant(explorer: Explorer):
    _send(explorer, ANSWER)
    answer = await _open(explorer)
    await expect(answer.get_by_role("heading", name="Refunds")).to_be_visible()
    await expect(answer.locator("strong")).to_have_text(["within 30 days", "the receipt"])
    await expect(answer.locator("em")).to_have_text(["delivery", "the"])
    await expect(answer.get_by_role("link")).to_have_text("the policy")
    await expect(answer.locator(".address")).to_have_text("(https://shop.example/policy)")
    assert await answer.get_by_role("link").get_attribute("rel") == "noreferrer noopener"
    await expect(answer).to_contain_text(
        "First line,\nsecond line with snake_case_names and a * b.\n2019. That was a year.", use_inner_text=True
    )
    await expect(answer.locator("ol > li")).to_have_count(2)
    await expect(answer.locator("ol > li > ul > li")).to_have_text(["sealed", "opened: nothing"])
    await expect(answer.locator("tbody td")).to_have_text(
        ["books\nmaps", "30", "films | series", "14"], use_inner_text=True
    )
    await expect(answer.locator("blockquote")).to_have_text("Keep the receipt.")
    await expect(answer.locator("pre")).to_have_text('print("**not bold**")')


async def test_text_as_written_is_remembered(explorer: Explorer):
    _send(explorer, ANSWER)
    answer = await _open(explorer)
    await explorer.page.get_by_role("button", name="Show as written").click()
    await expect(answer.locator(".text")).to_have_text(ANSWER)
    await explorer.page.reload()
    await expect(answer.locator(".text")).to_have_text(ANSWER)
    await explorer.page.get_by_role("button", name="Show Markdown").click()
    await expect(answer.get_by_role("heading", name="Refunds")).to_be_visible()


async def test_hostile_markdown_runs_nothing_and_loads_nothing(explorer: Explorer):
    _send(explorer, HOSTILE)
    answer = await _open(explorer)
    await expect(answer).to_contain_text("<script>document.title = 'owned'</script>")
    await expect(answer).to_contain_text("[run](javascript:document.title='owned')")
    await expect(answer).to_contain_text("&lt;b&gt;")
    links = answer.get_by_role("link")
    assert [await link.get_attribute("href") for link in await links.all()] == LINKS
    shown = await answer.inner_text()
    assert all(address.removeprefix("mailto:") in shown for address in LINKS)
    assert await answer.locator("script, img, svg, iframe").count() == 0
    assert await explorer.page.title() != "owned"


@pytest.mark.parametrize("size", [50_000, 4_000_000])
async def test_text_that_repeats_markup_is_shown(size: int, explorer: Explorer):
    units = REPEATED if size < 1_000_000 else REPEATED[:1]
    for number, unit in enumerate(units, 1):
        _send(explorer, "begin " + unit * (size // len(unit)), number)
        answer = await _open(explorer, number)
        await expect(answer).to_contain_text("begin")
        await answer.get_by_role("button", name="Show all").click()
        await expect(answer.get_by_role("button", name="Show all")).to_have_count(0)
        assert await answer.locator("*").count() < 20_000


@pytest.mark.parametrize("end", ["\r", "\u2028"], ids=["CR", "U+2028"])
async def test_heading_with_many_spaces_is_shown(end: str, explorer: Explorer):
    number = 0x40 + ord(end) % 0x20
    _send(explorer, f"# {' ' * 190_000}Refunds{end} of today", number)
    answer = await _open(explorer, number)
    await answer.get_by_role("button", name="Show all").click()
    await expect(answer.get_by_role("heading")).to_have_text("Refunds of today")
