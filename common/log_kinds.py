"""What a log record is: a step of a known agent, an event of a span, an evaluation, or nothing that is kept.

Intake and workers decide it here, so a response says what a worker will store (contract §4.1). A record that names a
span belongs to that span, also if it is of a known agent: the agent sends the span itself then, and a second one would
count its tokens twice.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from common.agent_logs.claude_code import claude_code_span
from common.agent_logs.codex import codex_span
from common.codec.decoded import DecodedLogs
from common.log_record import LogRecord
from common.log_refusals import LogRefusal, LogRefusals
from common.span import Span

_AGENTS: Final = (claude_code_span, codex_span)


class LogsByKind(NamedTuple):
    """The log records of one record, by what they are: ``spans`` of agents with their indexes, and ``events``: log
    records that name a span, or a response that they evaluate, each with its index.
    """

    spans: list[Span]
    span_indexes: list[int]
    events: list[tuple[LogRecord, int]]
    refusals: LogRefusals


def keep_logs(decoded: DecodedLogs) -> LogsByKind:
    """Return the log records by what they are."""
    logs = LogsByKind([], [], [], LogRefusals())
    for log, index in zip(decoded.logs, decoded.indexes, strict=True):
        kind = _kind_of(log)
        if isinstance(kind, Span):
            logs.spans.append(kind)
            logs.span_indexes.append(index)
        elif kind is None:
            logs.events.append((log, index))
        else:
            logs.refusals.add(index, kind)
    return logs


def _kind_of(log: LogRecord) -> Span | LogRefusal | None:
    """Return the span of a step of an agent, or why the log record is refused; ``None`` if it is an event."""
    if log.names_span:
        return None
    for span_of in _AGENTS:
        kind = span_of(log)
        if kind is not None:
            return kind
    return LogRefusal.NAMES_NO_SPAN if log.about is None else None
