"""Records opened one at a time and tried: what Clearspan itself fails on is found, down to the span, and refused.

One bad span costs one span, and so does a defect of ours that it shows (contract §4): its bytes are kept with the others that
were refused, and can be replayed when the defect is mended. Without this one such record would stop the worker, again at each
start. Taken only by chunks that failed as a whole: it does everything twice.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from common.clickhouse.span_columns import SpanColumns
from common.codec.checks import shown
from common.codec.decoded import Rejection, Rejections
from common.errors import RejectionCode
from common.kafka.record import Record
from ingest.consume import DecodedRecord, Rules, decode_record, nothing_of, only
from ingest.decoding.rows import append_rows

_ANY_LOG: Final = ""


def isolate_failures(record: Record, rules: Rules, *, now_ns: int) -> DecodedRecord:
    """As ``decode_record``, without what no rows can be made of. Raises ``MemoryError`` alone: that is nobody's fault."""
    try:
        decoded = decode_record(record, rules, now_ns=now_ns)
    except MemoryError:
        raise
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is refused with its name
        return nothing_of(record, rules)._replace(
            rejections=Rejections.of_record(RejectionCode.OUR_FAILURE, _told(exc))
        )
    return decoded if _failure_of(decoded, rules) is None else _without_failures(decoded, rules)


def _without_failures(decoded: DecodedRecord, rules: Rules) -> DecodedRecord:
    """The record without the spans that fail alone; without all of them where the others fail together."""
    positions = range(len(decoded.spans))
    failures = dict(_failures(decoded, positions, rules))
    kept = only(decoded, [each for each in positions if each not in failures])
    if failure := _failure_of(kept, rules):
        failures = {each: failures.get(each, failure) for each in positions}
        kept = only(decoded, [])
    rejections = decoded.rejections.plus(
        Rejection(decoded.span_indexes[each], RejectionCode.OUR_FAILURE, reason) for each, reason in failures.items()
    )
    return kept._replace(rejections=rejections)


def _failures(decoded: DecodedRecord, positions: Sequence[int], rules: Rules) -> Iterator[tuple[int, str]]:
    """The spans that fail alone, and why: found by halving, since a record may have a hundred thousand that do not."""
    failure = _failure_of(only(decoded, positions), rules)
    if failure is None:
        return
    if len(positions) == 1:
        yield positions[0], failure
        return
    half = len(positions) // 2
    yield from _failures(decoded, positions[:half], rules)
    yield from _failures(decoded, positions[half:], rules)


def _failure_of(decoded: DecodedRecord, rules: Rules) -> str | None:
    """Why no rows can be made of these spans, in words."""
    columns = SpanColumns()
    try:
        append_rows(columns, decoded, rules.prices, partition_id=_ANY_LOG)
        columns.rows()
    except MemoryError:
        raise
    except Exception as exc:  # noqa: BLE001 - as above
        return _told(exc)
    return None


def _told(failure: Exception) -> str:
    frame = traceback.extract_tb(failure.__traceback__)[-1]
    return (
        f"Clearspan failed on it, which is a defect of Clearspan: {type(failure).__name__}, {shown(str(failure))},"
        f" in {Path(frame.filename).name}, line {frame.lineno}. Replay it when that is mended."
    )
