"""What ``clearspan doctor`` prints of a response."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from clearspan.client.doctor import _print

HIDDEN = "Leave out OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_INPUT_MESSAGES."
SESSION = 'Call the model inside of `with using_session("…"):` of openinference.instrumentation.'

TABLE = """\
instrumentation             calls model tokens cost   in  out session user error
────────────────────────────────────────────────────────────────────────────────
openinference.i…anthropic   1,200  100%    99% 100%   0% 100%     50%   1%     –
openinference.inst…openai       3  100%   100% 100% 100% 100%      0% 100%  100%
(no scope)                      1  100%   100% 100%   0%   0%    100% 100%     –

- No inputs from openinference.instrumentation.anthropic: Leave out
  OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_INPUT_MESSAGES.
- No session from openinference.instrumentation.anthropic,
  openinference.instrumentation.openai: Call the model inside of `with
  using_session("…"):` of openinference.instrumentation.
- No inputs, outputs from (no scope): Set them.
- Spans without model calls: shop (2,000).
"""


def instrumentation(name: str, count: int, *hints: tuple[str, str], **shares: tuple[int, int]) -> dict[str, Any]:
    """One of a response; a value that is not named is on all calls, and no call failed."""
    names = ("model", "tokens", "cost", "inputs", "outputs", "session", "user")
    of_calls = {**dict.fromkeys(names, (count, count)), "error_message": (0, 0), **shares}
    return {
        "scope_name": name,
        "scope_version": "1.0",
        "spans_count": count,
        "calls_count": count,
        "calls": {value: {"count": has, "of": of} for value, (has, of) in of_calls.items()},
        "hints": [{"missing": missing, "hint": hint} for missing, hint in hints],
    }


ANTHROPIC = instrumentation(
    "openinference.instrumentation.anthropic",
    1_200,
    ("inputs", HIDDEN),
    ("session", SESSION),
    tokens=(1_199, 1_200),
    inputs=(0, 1_200),
    session=(600, 1_200),
    user=(1, 1_200),
)
OPENAI = instrumentation(
    "openinference.instrumentation.openai", 3, ("session", SESSION), session=(0, 3), error_message=(1, 1)
)
MINE = instrumentation("", 1, ("inputs", "Set them."), ("outputs", "Set them."), inputs=(0, 1), outputs=(0, 1))
SHOP = {"scope_name": "shop", "scope_version": "", "spans_count": 2_000, "calls_count": 0, "hints": []}


def test_table_and_hints_fit_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    _print([ANTHROPIC, OPENAI, MINE, SHOP])

    lines = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert "\n".join(line.rstrip() for line in lines) == TABLE.rstrip()


def test_a_pipe_has_whole_names_and_versions(capsys: pytest.CaptureFixture[str]) -> None:
    _print([ANTHROPIC])

    [title, _rule, row, *_] = capsys.readouterr().out.splitlines()
    assert title.split()[:3] == ["instrumentation", "version", "calls"]
    assert row.split()[:3] == ["openinference.instrumentation.anthropic", "1.0", "1,200"]


def test_spans_without_model_calls_are_listed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    _print([SHOP])

    assert capsys.readouterr().out == "- No span is a model call.\n- Spans without model calls: shop (2,000).\n"
