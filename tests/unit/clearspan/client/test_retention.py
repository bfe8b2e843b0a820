"""What ``clearspan projects retention`` prints."""

from __future__ import annotations

import pytest

from clearspan.cli import main
from clearspan.client.retention import described

STATE = {
    "max_age_days": 30.0,
    "stored": {"traces": 2, "spans": 12_000, "bytes": 9_500_000, "oldest": "2026-01-01T00:00:00Z"},
    "next_run": {
        "at": "2026-02-01T00:00:00Z",
        "because": "max_age_days",
        "deletes": {"traces": 1, "spans": 7, "bytes": 900},
    },
    "last_run": {
        "started_at": "2026-01-31T00:00:00Z",
        "failure": "too\nslow",
        "deleted": {"traces": 0, "spans": 0, "bytes": 0},
    },
    "deleted": {"traces": 1, "spans": 1, "bytes": 2_000},
}


def test_state_is_described_in_lines() -> None:
    assert described(STATE) == [
        "keeps     at most 30 days",
        "stored    2 traces, 12,000 spans, 9.5 MB, the oldest of 2026-01-01T00:00:00Z",
        "next run  2026-02-01T00:00:00Z",
        "deletes   1 trace, 7 spans, 900 bytes, because of max_age_days",
        "last run  2026-01-31T00:00:00Z, deleted nothing",
        "          too\\x0aslow",
        "deleted   1 trace, 1 span, 2 kB in all",
    ]


def test_project_without_rules_keeps_everything() -> None:
    nothing = {"traces": 0, "spans": 0, "bytes": 0}

    assert described({"stored": nothing, "deleted": nothing}) == [
        "keeps     everything",
        "stored    nothing",
        "deleted   nothing in all",
    ]


@pytest.mark.parametrize(
    "options",
    [
        ("--max-age-days", "-1"),
        ("--max-age-days", "nan"),
        ("--max-bytes", "50 gibibytes"),
        ("--max-bytes", "-5"),
    ],
)
def test_rule_that_makes_no_sense_is_wrong_usage(options: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["projects", "retention", *options])

    assert ended.value.code == 2
    assert "must be a number" in capsys.readouterr().err
