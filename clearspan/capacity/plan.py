"""A plan: how many partitions, workers and servers a load needs, each number with the formula that it comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from clearspan.capacity import figures
from clearspan.capacity.figures import Figure

DAY_S: Final = 86_400
MONTH_S: Final = 30 * DAY_S
TB: Final = 1e12
GB: Final = 1e9
BITS_OF_GB: Final = 8

USED_SHARE: Final = 0.7
"""The share of processors, disks and networks that is planned; the rest is for peaks and for catching up."""

ROOM_ON_DISK: Final = 1.3
"""Disk for parts that were merged but are not removed yet, and for spans that retention has not freed."""

KAFKA_DAYS: Final = 3
KAFKA_REPLICAS: Final = 3
PARTITIONS_MIN: Final = 4
PARTITIONS_PER_WORKER: Final = 2
DECODERS_MAX: Final = 8
PARTS_SHARE: Final = 0.1
"""The share of a server's processors that the parts of inserts may take, however few rows they have."""

GROUPS_S: Final = 15.0
"""The time budget of a query."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of an installation, and the servers that it is made of."""

    spans_per_second: float
    bytes_count: float
    """Of a span on the wire."""

    retention_s: float
    hot_s: float | None = None
    """How long spans are on the disks of the servers; ``None``: all the time."""

    replicas: int = 2
    queries_per_second: float = 10.0
    cores: int = 16
    """Of one ClickHouse server."""

    disk_bytes: float = 10 * TB
    network_bits: float = 10e9


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars a month: assumptions, not measurements."""

    core: float = 25.0
    disk_tb: float = 80.0
    object_tb: float = 23.0


class Item(NamedTuple):
    """One number of a plan."""

    name: str
    value: float
    unit: str
    formula: str


@dataclass(frozen=True, slots=True)
class SpanCosts:
    """What one span of the load takes. ``factors`` multiply figures, by their meaning."""

    load: Load
    factors: Mapping[str, float] = field(default_factory=dict)

    def of(self, figure: Figure) -> float:
        """Return a figure for the size of the load's spans."""
        return figure.of(self.load.bytes_count) * self.factors.get(figure.meaning, 1.0)

    @property
    def rewrites(self) -> float:
        """How often merges write a span: it grows with the rows of the largest part."""
        largest = min(
            figures.MERGED_PART_BYTES_MAX / self.of(figures.ON_DISK), max(1e6, self.load.spans_per_second * MONTH_S)
        )
        per_tenfold = (figures.REWRITES_AT_TWENTY_MILLION - figures.REWRITES_AT_MILLION) / math.log10(20)
        return figures.REWRITES_AT_MILLION + per_tenfold * math.log10(largest / 1e6)

    @property
    def engine_us(self) -> float:
        """Processor time of the engine."""
        return self.of(figures.INSERTING) + self.of(figures.MERGING) * self.rewrites / figures.REWRITES_AT_MILLION

    @property
    def worker_us(self) -> float:
        """Processor time of a worker."""
        return self.of(figures.DECODING) + self.of(figures.WORKER)

    @property
    def worker_rate(self) -> float:
        """Spans a second of one worker: its inserts follow each other, and it has at most eight decoders."""
        return 1e6 / max(self.of(figures.INSERTED_IN_TURN), self.of(figures.DECODING) / DECODERS_MAX)

    @property
    def parts_s(self) -> float:
        """Processor time of one insert on each server that it reaches, without its rows."""
        return figures.INSERT_MS * self.factors.get("insert", 1.0) / 1e3

    @property
    def hot_bytes(self) -> float:
        """On the disk of one copy, of all spans of the load."""
        load = self.load
        hot_s = load.retention_s if load.hot_s is None else min(load.hot_s, load.retention_s)
        wide = self.of(figures.ON_DISK) - self.of(figures.NARROW)
        return load.spans_per_second * (wide * hot_s + self.of(figures.NARROW) * load.retention_s)

    @property
    def cold_bytes(self) -> float:
        """On object storage, of one copy."""
        load = self.load
        wide = self.of(figures.ON_DISK) - self.of(figures.NARROW)
        cold_s = 0.0 if load.hot_s is None else max(0.0, load.retention_s - load.hot_s)
        return load.spans_per_second * wide * cold_s


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers of a plan, and what they cost a month."""

    load: Load
    items: tuple[Item, ...]

    def value(self, name: str) -> float:
        """Return one number."""
        return next(item.value for item in self.items if item.name == name)


def plan_of(load: Load, prices: Prices) -> Plan:
    """Return the plan of a load."""
    costs = SpanCosts(load)
    ingest = _ingest(load, costs)
    storage = _storage(load, costs)
    numbers = {item.name: item.value for item in (*ingest, *storage)}
    return Plan(load, (*ingest, *storage, *_network(load, costs, numbers), *_money(load, prices, numbers)))


def _ingest(load: Load, costs: SpanCosts) -> list[Item]:
    rate, planned_rate = load.spans_per_second, costs.worker_rate * USED_SHARE
    workers = math.ceil(rate / planned_rate)
    decoders = math.ceil(rate / workers * costs.of(figures.DECODING) / 1e6 / USED_SHARE)
    cores = math.ceil(rate * costs.worker_us / 1e6 / USED_SHARE)
    batch_rows = _batch_rows(load, costs)
    batch_gib = batch_rows * costs.load.bytes_count * figures.BATCH_GROWTH / 2**30
    memory = workers * (figures.WORKER_MEMORY_GIB + 2 * batch_gib)
    return [
        Item("workers", workers, "", f"{rate:,.0f} spans/s ÷ ({costs.worker_rate:,.0f} of one worker × {USED_SHARE})"),
        Item(
            "partitions",
            max(PARTITIONS_MIN, PARTITIONS_PER_WORKER * workers),
            "",
            f"{PARTITIONS_PER_WORKER} × workers, so that workers can be doubled; at least {PARTITIONS_MIN}",
        ),
        Item(
            "decoders of a worker",
            decoders,
            "",
            f"spans/s of a worker × {costs.of(figures.DECODING):.0f} µs ÷ {USED_SHARE}",
        ),
        Item("cores of workers", cores, "", f"{rate:,.0f} spans/s × {costs.worker_us:.0f} µs ÷ {USED_SHARE}"),
        Item(
            "rows of a batch",
            batch_rows,
            "",
            f"an insert takes {figures.INSERT_MS} ms on each shard, and all at most {PARTS_SHARE:.0%} of a server",
        ),
        Item("memory of workers", memory, "GiB", f"workers × ({figures.WORKER_MEMORY_GIB:g} GiB + two batches)"),
    ]


def _batch_rows(load: Load, costs: SpanCosts) -> int:
    """Return how many rows a batch should have, in thousands: each reaches every shard."""
    inserts_per_second = load.cores * USED_SHARE * PARTS_SHARE / costs.parts_s
    needed = load.spans_per_second / inserts_per_second
    return max(figures.BATCH_ROWS, math.ceil(needed / 1_000) * 1_000)


def _storage(load: Load, costs: SpanCosts) -> list[Item]:
    rate = load.spans_per_second
    usable_cores = load.cores * USED_SHARE
    query_cores = load.queries_per_second / figures.QUERIES_PER_CORE
    by_cores = math.ceil(
        (rate * costs.engine_us / 1e6 + query_cores / load.replicas) / (usable_cores * (1 - PARTS_SHARE))
    )
    hot = costs.hot_bytes * ROOM_ON_DISK
    by_disk = math.ceil(hot / (load.disk_bytes * USED_SHARE))
    shards = max(by_cores, by_disk)
    servers = shards * load.replicas
    window_s = GROUPS_S * servers * load.cores * 1e6 / (rate * figures.GROUPED_US)
    hot_days = (load.retention_s if load.hot_s is None else min(load.hot_s, load.retention_s)) / DAY_S
    on_disk = f"{costs.of(figures.ON_DISK):.0f} B × spans/s × {hot_days:g} d"
    disk = f"{on_disk} × {ROOM_ON_DISK} × {load.replicas} replicas"
    if load.hot_s is not None:
        disk += f", and {costs.of(figures.NARROW):.0f} B for the days after them"
    return [
        Item(
            "shards for processors",
            by_cores,
            "",
            f"({rate:,.0f} spans/s × {costs.engine_us:.0f} µs, merged {costs.rewrites:.1f} times,"
            f" + queries) ÷ ({load.cores} cores × {USED_SHARE} × {1 - PARTS_SHARE})",
        ),
        Item("shards for disks", by_disk, "", f"disk of one copy ÷ ({load.disk_bytes / TB:g} TB × {USED_SHARE})"),
        Item("shards", shards, "", "the larger of the two"),
        Item("ClickHouse servers", servers, "", f"shards × {load.replicas} replicas, of {load.cores} cores"),
        Item("disk of ClickHouse", hot * load.replicas / TB, "TB", disk),
        Item(
            "object storage",
            costs.cold_bytes * load.replicas / TB,
            "TB",
            f"what is older than the hot period × {load.replicas} replicas",
        ),
        Item(
            "disk of Kafka",
            rate * load.bytes_count * KAFKA_DAYS * DAY_S * KAFKA_REPLICAS / TB,
            "TB",
            f"spans/s × {load.bytes_count:,.0f} B × {KAFKA_DAYS} d × {KAFKA_REPLICAS} replicas, not compressed",
        ),
        Item(
            "window of groups",
            window_s / 3_600,
            "h",
            f"{GROUPS_S:g} s × all cores of servers ÷ ({rate:,.0f} spans/s × {figures.GROUPED_US} µs)",
        ),
    ]


def _network(load: Load, costs: SpanCosts, numbers: Mapping[str, float]) -> list[Item]:
    wire = load.spans_per_second * load.bytes_count / GB
    stored = load.spans_per_second * costs.of(figures.ON_DISK) / GB
    into_server = (wire + stored * (load.replicas - 1)) / numbers["shards"]
    return [
        Item("into Kafka", wire, "GB/s", f"spans/s × {load.bytes_count:,.0f} B; {KAFKA_REPLICAS} times with replicas"),
        Item("into one worker", wire / numbers["workers"], "GB/s", "the same ÷ workers; as much leaves it, at most"),
        Item(
            "into one shard",
            into_server,
            "GB/s",
            f"the same ÷ shards, and parts for its replicas; {load.network_bits / 1e9:g} Gbit/s are"
            f" {load.network_bits / BITS_OF_GB / GB:g} GB/s",
        ),
    ]


def _money(load: Load, prices: Prices, numbers: Mapping[str, float]) -> list[Item]:
    cores = numbers["cores of workers"] + numbers["ClickHouse servers"] * load.cores
    disks = numbers["disk of ClickHouse"] + numbers["disk of Kafka"]
    total = cores * prices.core + disks * prices.disk_tb + numbers["object storage"] * prices.object_tb
    return [
        Item(
            "cost",
            total,
            "USD a month",
            f"{cores:,.0f} cores × {prices.core:g} + {disks:,.1f} TB × {prices.disk_tb:g}"
            f" + {numbers['object storage']:,.1f} TB of objects × {prices.object_tb:g};"
            " without brokers, API and traffic",
        )
    ]
