"""Plans: their formulas, their limits, and what is said of wrong options."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearspan.capacity import figures
from clearspan.capacity.limits import CHANGES, limits_of
from clearspan.capacity.plan import DAY_S, TB, Load, Prices, plan_of
from clearspan.cli import main

LOAD = Load(200_000, 2_000, 30 * DAY_S)
ASKED = ["plan", "--spans-per-second", "200000", "--retention", "30d"]
LOADS = st.builds(
    Load,
    st.floats(1, 1e7),
    st.integers(100, 1_000_000),
    st.floats(1, 1_000).map(lambda days: days * DAY_S),
    st.none() | st.floats(0, 1_000).map(lambda days: days * DAY_S),
    st.integers(1, 5),
)


def numbers(load: Load) -> dict[str, float]:
    return {item.name: item.value for item in plan_of(load, Prices()).items}


def test_numbers_follow_from_their_formulas() -> None:
    plan = numbers(LOAD)

    assert plan["workers"] == 18  # 200,000 ÷ (16,562 × 0.7) = 17.3
    assert plan["partitions"] == 36
    assert plan["decoders of a worker"] == 2  # 11,111 × 116.9 µs ÷ 0.7 = 1.9
    assert plan["cores of workers"] == 44  # 200,000 × (116.9 + 34.6) µs ÷ 0.7 = 43.3
    assert plan["disk of ClickHouse"] == pytest.approx(804 * 200_000 * 30 * DAY_S * 1.3 * 2 / TB)
    assert plan["disk of Kafka"] == pytest.approx(2_000 * 200_000 * 3 * DAY_S * 3 / TB)
    assert plan["shards for disks"] == 78  # 541.9 TB ÷ (10 TB × 0.7) = 77.4
    assert plan["into Kafka"] == pytest.approx(0.4)


def test_plain_spans_take_the_measured_figures() -> None:
    load = Load(10_000, figures.PLAIN_BYTES, DAY_S)

    assert plan_of(load, Prices()).value("disk of ClickHouse") == pytest.approx(197 * 10_000 * DAY_S * 1.3 * 2 / TB)
    assert figures.DECODING.of(figures.PLAIN_BYTES) == 7.2
    assert figures.DECODING.of(1) == 3.6


def test_hot_period_moves_bytes_to_object_storage() -> None:
    plan = numbers(replace(LOAD, hot_s=7 * DAY_S))
    wide, narrow = 804 - 43, 43

    assert plan["object storage"] == pytest.approx(wide * 200_000 * 23 * DAY_S * 2 / TB)
    assert plan["disk of ClickHouse"] == pytest.approx((wide * 7 + narrow * 30) * 200_000 * DAY_S * 1.3 * 2 / TB)
    assert plan["cost"] < numbers(LOAD)["cost"]


def test_batches_grow_where_each_reaches_many_shards() -> None:
    assert numbers(LOAD)["rows of a batch"] == figures.BATCH_ROWS
    assert numbers(replace(LOAD, spans_per_second=1e6))["rows of a batch"] == 66_000


@given(LOADS, st.floats(1, 100))
def test_more_spans_never_need_less(load: Load, factor: float) -> None:
    few, many = numbers(load), numbers(replace(load, spans_per_second=load.spans_per_second * factor))

    for name in ("workers", "partitions", "cores of workers", "shards", "disk of ClickHouse", "disk of Kafka", "cost"):
        assert many[name] >= few[name] > 0, name


def test_limits_come_in_their_order_and_a_seed_repeats_them() -> None:
    limits = limits_of(LOAD, seed=1)

    assert limits == limits_of(LOAD, seed=1) != limits_of(LOAD, seed=2)
    assert {limit.name for limit in limits} == CHANGES.keys()
    assert [limit.spans_per_second for limit in limits] == sorted(limit.spans_per_second for limit in limits)
    assert all(limit.low <= limit.spans_per_second <= limit.high for limit in limits)
    assert sum(limit.first_share for limit in limits) == pytest.approx(1)


def test_disk_comes_first_unless_old_spans_move() -> None:
    assert limits_of(LOAD, seed=1)[0].name == "disk of one server"
    assert limits_of(replace(LOAD, hot_s=2 * DAY_S), seed=1)[0].name == "inserts of one worker"


def test_json_has_the_plan_the_limits_and_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([*ASKED, "--json"])

    assert left.value.code == 0
    shown = json.loads(capsys.readouterr().out)
    assert {item["name"]: item["value"] for item in shown["plan"]}["workers"] == 18
    assert shown["limits"][0]["name"] == "disk of one server"
    assert shown["measured"]["date"] == figures.DATE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "--retention", "30d"], "the following arguments are required: --spans-per-second"),
        ([*ASKED, "--bytes", "5"], "--bytes: must be from 100 to 4,194,304, the largest span"),
        ([*ASKED, "--cores", "0"], "--cores: must be a whole number above 0"),
        ([*ASKED, "--disk-tb", "1e12"], "--disk-tb: must be from 0.001 to 1,000,000,000"),
        ([*ASKED, "--hot", "31d"], "--hot is longer than --retention: spans are deleted before they move."),
        (["plan", "--spans-per-second", "many", "--retention", "30d"], "must be a number above 0"),
        (["plan", "--spans-per-second", "1", "--retention", "a month"], "must be a whole number above 0 and one of"),
    ],
)
def test_wrong_options_are_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)

    assert left.value.code == 2
    assert message in capsys.readouterr().err


def test_extreme_loads_have_a_plan() -> None:
    for rate, size in ((0.001, 1e9), (1e9, 0.001)):
        load = Load(rate, 4_194_304, 36_500 * DAY_S, None, 5, 1e9, 1, size * TB, 1e6)
        assert all(value >= 0 for value in numbers(load).values())
        assert limits_of(load, seed=3)
