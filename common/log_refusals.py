"""Why a log record that is well-formed is not kept (contract §4.1): reported over HTTP and gRPC, counted from Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

EXAMPLES_MAX: Final = 10
"""How many refused log records of a request are named."""


class LogRefusal(StrEnum):
    """The kinds of log records that are not kept; labels of a metric."""

    NAMES_NO_SPAN = "names_no_span"
    NO_SESSION = "no_session"
    PART_OF_STREAM = "part_of_stream"
    LOGS_OFF = "logs_off"


REASONS: Final[Mapping[LogRefusal, str]] = {
    LogRefusal.NAMES_NO_SPAN: (
        "It names no span (trace id and span id), is no evaluation of a response (gen_ai.response.id), and is of no"
        " known agent (claude_code.*, codex.*): Clearspan stores spans and what belongs to them."
    ),
    LogRefusal.NO_SESSION: (
        "It has no attribute that says to which trace it belongs: prompt.id or session.id of Claude Code,"
        " conversation.id of Codex."
    ),
    LogRefusal.PART_OF_STREAM: (
        "It is one event of a streamed response of Codex; the record with the token counts becomes the span."
    ),
    LogRefusal.LOGS_OFF: "Log records are not stored here.",
}
"""A sentence for people about each."""


@dataclass(slots=True)
class LogRefusals:
    """What is refused of one record, in bounded memory: how many of each kind, and the first with their indexes."""

    counts: Counter[LogRefusal] = field(default_factory=Counter)
    examples: list[tuple[int, LogRefusal]] = field(default_factory=list)

    def __len__(self) -> int:
        return self.counts.total()

    def add(self, index: int, refusal: LogRefusal) -> None:
        """Refuse the log record with this index."""
        self.counts[refusal] += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append((index, refusal))
