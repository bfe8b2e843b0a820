"""``clearspan plan``: what a rate of spans needs, and which limit comes first."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Final, NamedTuple

from clearspan.capacity import figures
from clearspan.capacity.limits import DRAWS, Limit, limits_of
from clearspan.capacity.plan import DAY_S, GB, TB, Item, Load, Plan, Prices, plan_of
from clearspan.client.output import TableColumn, note, print_table
from clearspan.command import Option, Titled, command
from clearspan.console import fail, print_json
from clearspan.options import positive_integer, positive_number, time_span

DESCRIPTION: Final = """\
Print what an installation for a rate of spans needs: partitions, workers, shards, disks, network and cost, each with
its formula. It is an estimate: its figures were measured on one machine (docs/performance.md). Measure your own spans
on your own machines with `make bench`, and correct the plan by the ratio. The command connects to nothing.
"""

EXAMPLES: Final = """\
what is needed
  clearspan plan --spans-per-second 200000 --retention 30d --bytes 2000

most of the disk is old spans: keep a week on disks and the rest on object storage (docs/cold-storage.md)
  clearspan plan --spans-per-second 200000 --retention 30d --bytes 2000 --hot 7d

other servers and prices
  clearspan plan --spans-per-second 20000 --retention 90d --bytes 500 --cores 32 --disk-tb 30 --price-disk-tb 40

which limit comes first, if the figures are off by half
  clearspan plan --spans-per-second 1000000 --retention 30d --bytes 2000 --limits --seed 1

docs/capacity.md explains each number.
"""
BYTES_MAX: Final = 4_194_304
BYTES_MIN: Final = 100
AMOUNT_MIN: Final = 0.001
AMOUNT_MAX: Final = 1e9


def _span_bytes(text: str) -> int:
    count = positive_integer(text)
    if not BYTES_MIN <= count <= BYTES_MAX:
        raise argparse.ArgumentTypeError(f"must be from {BYTES_MIN} to {BYTES_MAX:,}, the largest span")
    return count


def _amount(text: str) -> float:
    amount = positive_number(text)
    if not AMOUNT_MIN <= amount <= AMOUNT_MAX:
        raise argparse.ArgumentTypeError(f"must be from {AMOUNT_MIN:g} to {AMOUNT_MAX:,.0f}")
    return amount


class LoadOptions(NamedTuple):
    """What arrives, and how long it is kept."""

    spans_per_second: Annotated[float, Option("N", "spans that arrive, on average in the busiest hour", type=_amount)]
    retention: Annotated[timedelta, Option("DURATION", "how long spans are kept, such as 30d", type=time_span)]
    bytes_count: Annotated[
        int,
        Option(
            "N",
            "size of a span on the wire, not compressed (default: 2000, an LLM span)",
            flag="--bytes",
            type=_span_bytes,
        ),
    ] = figures.LLM_BYTES
    hot: Annotated[
        timedelta | None,
        Option("DURATION", "how long spans are on disks of servers; older ones are on object storage", type=time_span),
    ] = None
    queries_per_second: Annotated[float, Option("N", "mixed queries (default: 10)", type=_amount)] = 10.0


class ServerSizes(NamedTuple):
    """The ClickHouse servers of a plan."""

    replicas: Annotated[int, Option("N", "copies of each shard (default: 2)", type=positive_integer)] = 2
    cores: Annotated[int, Option("N", "cores of a server (default: 16)", type=positive_integer)] = 16
    disk_tb: Annotated[float, Option("N", "disk of a server in TB (default: 10)", type=_amount)] = 10.0
    network_gbit: Annotated[float, Option("N", "network of a server (default: 10)", type=_amount)] = 10.0


class PriceOptions(NamedTuple):
    """Assumptions, in US dollars a month."""

    price_core: Annotated[float, Option("USD", "a core with 4 GB (default: 25)", type=_amount)] = 25.0
    price_disk_tb: Annotated[float, Option("USD", "a TB of disk (default: 80)", type=_amount)] = 80.0
    price_object_tb: Annotated[float, Option("USD", "a TB of objects (default: 23)", type=_amount)] = 23.0


@command(description=DESCRIPTION, epilog=EXAMPLES, needs_settings=False)
def plan(
    _settings: None,
    *,
    load: Annotated[LoadOptions, Titled("load")],
    servers: Annotated[ServerSizes, Titled("ClickHouse servers")],
    prices: Annotated[PriceOptions, Titled("prices a month")],
    limits: Annotated[bool, Option(None, "print the limits of one worker and one server, in their order")] = False,
    seed: Annotated[int, Option("N", "seed of the model of limits (default: 1)", type=positive_integer)] = 1,
    as_json: Annotated[bool, Option(None, "print one JSON object", flag="--json")] = False,
) -> int:
    """Print a plan, or its limits; return the exit code."""
    if load.hot is not None and load.hot > load.retention:
        return fail("--hot is longer than --retention: spans are deleted before they move.", code=2)
    asked = Load(
        spans_per_second=load.spans_per_second,
        bytes_count=load.bytes_count,
        retention_s=load.retention.total_seconds(),
        hot_s=None if load.hot is None else load.hot.total_seconds(),
        queries_per_second=load.queries_per_second,
        replicas=servers.replicas,
        cores=servers.cores,
        disk_bytes=servers.disk_tb * TB,
        network_bits=servers.network_gbit * GB,
    )
    made = plan_of(asked, Prices(prices.price_core, prices.price_disk_tb, prices.price_object_tb))
    reached = limits_of(asked, seed=seed) if limits or as_json else []
    if as_json:
        print_json(_members(made, reached))
    elif limits:
        _print_limits(asked, reached, seed=seed)
    else:
        _print_plan(made)
    return 0


def _members(made: Plan, reached: Sequence[Limit]) -> dict[str, Any]:
    return {
        "measured": {"date": figures.DATE, "machine": figures.MACHINE},
        "plan": [item._asdict() for item in made.items],
        "limits": [limit._asdict() for limit in reached],
    }


def _print_plan(made: Plan) -> None:
    load = made.load
    print(
        f"{load.spans_per_second:,.0f} spans/s of {load.bytes_count:,} bytes,"
        f" kept for {load.retention_s / DAY_S:g} days\n"
    )
    columns = (
        TableColumn("what", is_whole=True),
        TableColumn("number", "right", is_whole=True),
        TableColumn("formula"),
    )
    print_table(columns, ((item.name, _shown(item), item.formula) for item in made.items))
    note(f"Figures of {figures.DATE}, {figures.MACHINE}. `--limits` says what comes first as the rate grows.")


def _shown(item: Item) -> str:
    digits = 0 if item.value == round(item.value) or item.value >= 100 else 2 if item.value < 10 else 1
    return f"{item.value:,.{digits}f} {item.unit}".strip()


def _print_limits(load: Load, reached: Sequence[Limit], *, seed: int) -> None:
    print(f"Limits for spans of {load.bytes_count:,} bytes, {DRAWS:,} draws with seed {seed}\n")
    columns = (
        TableColumn("limit", is_whole=True),
        TableColumn("spans/s", "right", is_whole=True),
        TableColumn("nine of ten draws", "right", is_whole=True),
        TableColumn("comes first", "right", is_whole=True),
        TableColumn("what changes then"),
    )
    rows = (
        (
            limit.name,
            f"{limit.spans_per_second:,.0f}",
            f"{limit.low:,.0f} to {limit.high:,.0f}",
            f"{limit.first_share:.0%}",
            limit.change,
        )
        for limit in reached
    )
    print_table(columns, rows)
