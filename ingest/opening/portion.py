"""A portion of records, opened: the one function that makes rows of records, wherever it runs (ADR 0006).

Everything here can be sent to another process and back. What needs the outside stays with the worker: whether a
project exists, whether a record is admitted, what is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa

from common.clickhouse.span_columns import SpanColumns
from common.codec.decoded import Rejections
from common.kafka.record import Partition, Record
from common.settings import Encoding
from ingest.consume import Opened, Rules, is_undecodable, open_record, without_projects
from ingest.cut import CutDeadLetter, cut_dead_letters
from ingest.opening.rows import append_rows
from ingest.opening.wary import open_warily


@dataclass(frozen=True, slots=True)
class Portion:
    """Records that are opened together, in the order in which they came.

    ``logs`` names the log of each partition among them (``RecordSource.log_of``). ``unknown`` are the projects that are
    known not to exist: their spans are refused.
    """

    records: Sequence[Record]
    logs: Mapping[Partition, str]
    now_ns: int
    unknown: frozenset[UUID] = frozenset()

    def refusing(self, unknown: frozenset[UUID]) -> Portion:
        """The same portion, to be opened again without the spans of these projects too."""
        return replace(self, unknown=self.unknown | unknown)


class Account(NamedTuple):
    """What became of one record. ``bytes_count`` is the memory of its rows, dead letters and rejections, about.

    ``is_undecodable``: nothing of it can be read and it names no project (``consume.is_undecodable``). ``misfits`` counts the values of known meaning that could not be read, by reason (``ingest/semconv/rows.py``).
    """

    encoding: Encoding
    rows_count: int
    bytes_count: int
    rejections: Rejections
    dead_letters: Sequence[CutDeadLetter]
    is_undecodable: bool
    base64_ids_count: int
    misfits: Mapping[str, int]


class OpenedPortion(NamedTuple):
    """``accounts`` go in parallel with the records; ``rows`` are those of all of them, in their order, but for ``stored_us``.

    ``claimed`` are the projects that rows belong to. ``seconds`` is how long it took.
    """

    accounts: Sequence[Account]
    claimed: frozenset[UUID]
    rows: pa.Table
    seconds: float


class OpenedRecord(NamedTuple):
    """One record of an opened portion. Its rows are ``account.rows_count`` of ``rows`` from ``first_row`` on."""

    record: Record
    log: str
    account: Account
    rows: pa.Table
    first_row: int


def open_portion(portion: Portion, rules: Rules) -> OpenedPortion:
    """The rows of the records, and for each record what became of it.

    Never raises for what records hold. What Clearspan itself fails on is refused as well (``wary.py``).
    """
    started_s = time.monotonic()
    try:
        opened = _opened(portion, rules, open_record)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a defect of ours: which spans show it comes out by trying each
        opened = _opened(portion, rules, open_warily)
    return opened._replace(seconds=time.monotonic() - started_s)


def _opened(portion: Portion, rules: Rules, open_one: Callable[..., Opened]) -> OpenedPortion:
    columns = SpanColumns()
    claimed: set[UUID] = set()
    opened = []
    dead_letters = []
    misfits = []
    for record in portion.records:
        each = without_projects(open_one(record, rules, now_ns=portion.now_ns), portion.unknown)
        claimed.update(each.claimed)
        misfits.append(append_rows(columns, each, rules.prices, log=portion.logs[record.source]))
        dead_letters.append(cut_dead_letters(record, each.rejections, encoding=each.encoding, layout=each.layout))
        # The spans are columns by now; kept alive they would double the memory of the portion.
        opened.append(each._replace(spans=[], layout=None))
    rows = columns.rows()
    accounts = _accounts(opened, dead_letters, misfits, rules, rows_bytes=rows.nbytes)
    return OpenedPortion(accounts, frozenset(claimed), rows, seconds=0.0)


def records_of(portion: Portion, opened: OpenedPortion) -> Iterator[OpenedRecord]:
    """The records of a portion with what became of them, in their order."""
    first_row = 0
    for record, account in zip(portion.records, opened.accounts, strict=True):
        yield OpenedRecord(record, portion.logs[record.source], account, opened.rows, first_row)
        first_row += account.rows_count


def _accounts(
    opened: Sequence[Opened],
    dead_letters: Sequence[Sequence[CutDeadLetter]],
    misfits: Sequence[Mapping[str, int]],
    rules: Rules,
    *,
    rows_bytes: int,
) -> list[Account]:
    """Rows are as large as what they were made of, so records share their memory by the size of their values."""
    values_bytes = sum(len(each.record.value or b"") for each in opened) or 1
    return [
        Account(
            each.encoding,
            len(each.span_indexes),
            rows_bytes * len(each.record.value or b"") // values_bytes
            + sum(len(letter.value) for letter in letters)
            + each.rejections.further_indexes.itemsize * len(each.rejections.further_indexes),
            each.rejections,
            letters,
            is_undecodable(each, rules),
            each.base64_ids_count,
            unread,
        )
        for each, letters, unread in zip(opened, dead_letters, misfits, strict=True)
    ]
