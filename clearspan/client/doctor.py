"""``clearspan doctor``: which instrumentations send, what their model calls have, and what to set for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any, Final

from rich.text import Text

from clearspan.client.connection import ApiClient, api_command
from clearspan.client.output import GAP, TableColumn, console, note, print_objects, print_table, safe
from clearspan.client.requests import windowing_of
from clearspan.command import Json
from clearspan.options import WindowOptions
from clearspan.program import called
from common.printable import printable

DESCRIPTION: Final = """\
Show which instrumentations send spans, and the share of their model calls that has a model, tokens, a cost, inputs,
outputs, a session and a user, and of those that failed a message. Below it says what to set in a library whose spans
lack something. The newest 10,000 spans and model calls of a week count; --last chooses another window.
"""
EXAMPLES: Final = """\
examples
  clearspan doctor
  clearspan doctor --last 15m          only what arrived after a change
  clearspan doctor --json

Tokens, costs and outputs are shares of the calls that did not fail; inputs and outputs count without embeddings, errors
of the calls that failed. A session or user counts if any span of the trace names it.
"""
SHARES: Final[Mapping[str, str]] = {
    "model": "model",
    "tokens": "tokens",
    "cost": "cost",
    "inputs": "in",
    "outputs": "out",
    "session": "session",
    "user": "user",
    "error_message": "error",
}
"""Member of ``calls`` in a response → title."""

CALLS_TITLE: Final = "calls"
LINE_WIDTH_MAX: Final = 100
SHARE_WIDTH_MIN: Final = len("100%")

Instrumentation = Mapping[str, Any]


@api_command(description=DESCRIPTION, epilog=EXAMPLES, is_table=True)
async def doctor(api: ApiClient, *, window: WindowOptions, as_json: Json = False) -> int:
    """Print what the instrumentations of the project send."""
    answer = await api.get("/status/instrumentations", **windowing_of(window))
    instrumentations: Sequence[Instrumentation] = answer["instrumentations"]
    if as_json:
        print_objects(instrumentations)
    elif not instrumentations:
        _print_lines([_nothing_arrived(api.url, is_default=not windowing_of(window))])
    else:
        _print(instrumentations)
    for name, spans in (("sampled_spans", "spans"), ("sampled_calls", "model calls")):
        if (sampled := answer.get(name)) is not None:
            of = f" of {sampled['of']:,}" if "of" in sampled else ""
            note(f"Only the newest {sampled['examined']:,}{of} {spans} are examined.")
    return 0


def _nothing_arrived(url: str, *, is_default: bool) -> str:
    when = "in the last 7 days" if is_default else "in this window"
    return (
        f"No span started {when}. Send OTLP to {url}/otlp/v1/traces: docs/instrumentations.md has the lines for each"
        f" library. `{called('dead-letters list')}` shows what was rejected."
    )


def _print(instrumentations: Sequence[Instrumentation]) -> None:
    calling = [each for each in instrumentations if "calls" in each]
    if calling:
        widths = {name: max(len(title), SHARE_WIDTH_MIN) for name, title in SHARES.items()}
        titles = " ".join([CALLS_TITLE, *(title.rjust(widths[name]) for name, title in SHARES.items())])
        name_width = console().width - len(titles) - GAP
        columns = [
            TableColumn("instrumentation", is_whole=True),
            TableColumn("version", is_whole=True, is_optional=True),
            TableColumn(titles, "right", is_whole=True),
        ]
        rows = [
            [
                safe(_cut(each["scope_name"] or "(no scope)", max(name_width, len(columns[0].title)))),
                safe(each["scope_version"]),
                Text(_shares(each, widths)),
            ]
            for each in calling
        ]
        print_table(columns, rows)
    lines = [*_hint_lines(instrumentations), *_others_lines(instrumentations)]
    if not calling:
        lines.insert(0, "No span is a model call.")
    if calling and lines:
        console().print()
    _print_lines(lines)


def _cut(name: str, width: int) -> str:
    """Return a name that is at most ``width`` long; if it is cut, its beginning and its last part stay."""
    if len(name) <= width:
        return name
    tail = name.rpartition(".")[2][-(width * 2 // 3) :]
    return f"{name[: width - len(tail) - 1]}…{tail}"


def _shares(instrumentation: Instrumentation, widths: Mapping[str, int]) -> str:
    calls = instrumentation["calls"]
    count = f"{instrumentation['calls_count']:,}".rjust(len(CALLS_TITLE))
    return " ".join([count, *(_percent(calls[name]).rjust(width) for name, width in widths.items())])


def _percent(share: Mapping[str, int]) -> str:
    """Return a share, rounded down, so that 100% are all; anything above nothing is at least 1%."""
    count, of = share["count"], share["of"]
    if of == 0:
        return "–"
    return f"{max(count * 100 // of, 1 if count else 0)}%"


def _hint_lines(instrumentations: Iterable[Instrumentation]) -> list[str]:
    """Return each hint once, with the values and the instrumentations that it is about."""
    about: dict[tuple[str, str], dict[str, None]] = {}
    for each in instrumentations:
        missing: dict[str, list[str]] = {}
        for hint in each["hints"]:
            missing.setdefault(hint["hint"], []).append(hint["missing"].replace("_", " "))
        for sentence, values in missing.items():
            about.setdefault((", ".join(values), sentence), {})[each["scope_name"] or "(no scope)"] = None
    return [f"No {values} from {', '.join(names)}: {sentence}" for (values, sentence), names in about.items()]


def _others_lines(instrumentations: Iterable[Instrumentation]) -> list[str]:
    """Return which instrumentations make no model calls."""
    others = [
        f"{each['scope_name'] or '(no scope)'} ({each['spans_count']:,})"
        for each in instrumentations
        if "calls" not in each
    ]
    return [f"Spans without model calls: {', '.join(others)}."] if others else []


def _print_lines(lines: Iterable[str]) -> None:
    """Print paragraphs, each as a list item that is wrapped."""
    out = console()
    width = min(out.width, LINE_WIDTH_MAX)
    for line in lines:
        wrapped = fill(
            printable(line),
            width,
            initial_indent="- ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        out.print(Text(wrapped), soft_wrap=True)
