"""Measures as people write them, and the tables of groups."""

from __future__ import annotations

from typing import Any

import pytest

from clearspan.client.connection import WrongUsage
from clearspan.client.groups import GroupTable, MeasureName, _print, read_measure
from clearspan.client.output import sparkline

COST = MeasureName("cost", "sum")


def group(by: dict[str, Any], cost: float | None, at: str | None = None) -> dict[str, Any]:
    values = {"cost": {} if cost is None else {"sum": cost}}
    return {"by": by, "values": values} | ({} if at is None else {"at": at})


@pytest.mark.parametrize(
    ("text", "measure"),
    [
        ("count", MeasureName("count", None)),
        ("duration.p95", MeasureName("duration", "p95")),
        ("http.status.max", MeasureName("http.status", "max")),
        ("resource.service.name.uniq", MeasureName("resource.service.name", "uniq")),
    ],
)
def test_measure_is_a_value_and_a_statistic(text: str, measure: MeasureName) -> None:
    assert read_measure(text) == measure


@pytest.mark.parametrize("text", ["", "cost", "cost.median", "count.sum.x", ".sum", "nope.sum"])
def test_other_texts_are_no_measures(text: str) -> None:
    with pytest.raises(WrongUsage):
        read_measure(text)


def test_bars_are_as_long_as_the_measure_of_the_order(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"groups": [group({"model": "large"}, 3.0), group({"model": None}, 1.5), group({"model": "\x1b"}, None)]}
    _print(GroupTable(["model"], [COST], COST), answer, interval=None)

    large, none, hostile = capsys.readouterr().out.splitlines()[2:]
    assert "$3.00" in large
    assert (large.count("█"), none.count("█"), hostile.count("█")) == (20, 10, 0)
    assert none.startswith("(none)")
    assert hostile.startswith("\\x1b")


def test_series_of_groups_keep_empty_buckets(capsys: pytest.CaptureFixture[str]) -> None:
    groups = [
        group({"model": "a"}, 8.0, "2026-05-01T00:00:00Z"),
        group({"model": "a"}, 4.0, "2026-05-01T03:00:00Z"),
        group({"model": "b"}, 2.0, "2026-05-01T01:00:00Z"),
    ]
    _print(GroupTable(["model"], [COST], COST), {"groups": groups}, interval="1h")

    a, b = capsys.readouterr().out.splitlines()[2:]
    assert "█  ▅" in a
    assert " ▃  " in b
    assert a.rstrip().endswith("$8.00")


def test_long_series_are_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    groups = [group({"model": "a"}, 1.0, f"2026-05-{day:02}T{hour:02}:00:00Z") for day in (1, 30) for hour in range(24)]
    _print(GroupTable(["model"], [COST], COST), {"groups": groups}, interval="1h")

    assert max(map(len, capsys.readouterr().out.splitlines())) < 120


def test_sparkline_has_no_character_where_there_is_no_value() -> None:
    assert sparkline([0, None, 8, 4, 99], 8) == "▁ █▅█"
