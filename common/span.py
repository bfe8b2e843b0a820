"""A span as it was sent, in whatever encoding: the result of every codec.

Plain values, immutable, no I/O. Attribute values are JSON-ready from here on (contract §4): bytes are base64 text,
doubles that are not finite are the texts ``NaN``, ``Infinity``, ``-Infinity``, a double without a fraction inside the
64-bit range is an ``int`` (so −0.0 is 0 and 5.0 is 5). Times are ``int`` nanoseconds since 1970, UTC.
Ids are 16 bytes: a trace id as it is, a span id of eight bytes doubled (reference §2.1).

``NamedTuple`` and not a frozen dataclass: building one is three times as fast, and the worker builds one per span.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from common.nesting import Nesting
from common.score import Score

Value: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None
Attributes: TypeAlias = dict[str, Any]


class SpanKind(IntEnum):
    """OTLP ``Span.SpanKind``; responses contain the name."""

    SPAN_KIND_UNSPECIFIED = 0
    SPAN_KIND_INTERNAL = 1
    SPAN_KIND_SERVER = 2
    SPAN_KIND_CLIENT = 3
    SPAN_KIND_PRODUCER = 4
    SPAN_KIND_CONSUMER = 5


class StatusCode(IntEnum):
    """OTLP ``Status.StatusCode``; responses contain the name."""

    STATUS_CODE_UNSET = 0
    STATUS_CODE_OK = 1
    STATUS_CODE_ERROR = 2


TRACE_TYPES = ("invocation", "annotation", "unknown")
SPAN_TYPES = (
    "agent",
    "chain",
    "workflow",
    "task",
    "tool",
    "embedding",
    "query",
    "llm",
    "completion",
    "chat",
    "rerank",
    "unknown",
)


RUNNING: Final = "running"
"""The only value of the member ``state``."""


class PromotedText(NamedTuple):
    """Where the text of a promoted member comes from."""

    mask_key: str
    """The key of the attribute as it is sent: rules for it mask the member, too."""

    steps: tuple[str, ...]
    """The path in the canonical ``ag``."""


PROMOTED_TEXTS: Final[Mapping[str, PromotedText]] = {
    "session_id": PromotedText("ag.session.id", ("session", "id")),
    "user_id": PromotedText("ag.user.id", ("user", "id")),
    # The canonical shape has no place for agents.
    "agent_id": PromotedText("ag.agent.id", ("unsupported", "agent", "id")),
}
"""The values of attributes that are members and columns of their own: the last fields of ``Span`` and of
``NormalizedSpan``, in this order. The engine's ``members`` depends on the order: append only.
"""

MODEL_CALLS = ("llm", "chat", "completion", "embedding", "rerank")
"""The span types that are one call of a model."""


class Resource(NamedTuple):
    """Who made the spans. ``attributes`` are nested (reference §2.2). ``repaired`` is as in ``Span``."""

    attributes: Attributes
    dropped_attributes_count: int = 0
    schema_url: str = ""
    repaired: tuple[str, ...] = ()


class Scope(NamedTuple):
    """Which instrumentation made the spans. ``attributes`` and ``repaired`` are as in ``Resource``."""

    name: str = ""
    version: str = ""
    attributes: Attributes = {}  # noqa: RUF012 - never mutated: a value, like the tuple around it
    dropped_attributes_count: int = 0
    schema_url: str = ""
    repaired: tuple[str, ...] = ()


NO_RESOURCE = Resource({})
NO_SCOPE = Scope()


LOG_SOURCE: Final = "log"
"""The member ``source`` of an event that came as a log record."""


class LogMembers(NamedTuple):
    """What an event has besides if it came as a log record. A body of ``None`` is absent."""

    body: Value = None
    severity_text: str = ""
    severity_number: int = 0


LOG_MEMBERS: Final = LogMembers._fields
"""Their names in responses."""


class Event(NamedTuple):
    """An event of the span. ``attributes`` stay flat, as sent. ``log`` is set if it came as a log record."""

    name: str
    time_ns: int
    attributes: Attributes
    dropped_attributes_count: int = 0
    log: LogMembers | None = None


class Link(NamedTuple):
    """A pointer to another span. ``attributes`` stay flat, as sent."""

    trace_id: bytes
    span_id: bytes
    attributes: Attributes
    trace_state: str = ""
    flags: int = 0
    dropped_attributes_count: int = 0


class Span(NamedTuple):
    """One span as sent.

    ``attributes`` are flat or nested, in the order in which they came: ``normalize`` nests them.
    ``links`` is ``None`` where the member was absent: an empty list makes an annotation (reference §3.4).
    ``references`` and ``hashes`` are JSON-ready objects, only ``span_json`` carries them.
    ``resource`` and ``scope`` are shared between the spans of one record: the same object, not an equal one.
    ``repaired`` are the places whose texts or values had to be repaired (``common/codec/repair.py``).
    ``scores`` are those that came from elsewhere than the span's own events.
    ``is_running``: its end has not been sent; ``end_ns`` is its start then.
    """

    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status_code: int
    status_message: str | None
    attributes: Attributes
    events: tuple[Event, ...] = ()
    links: tuple[Link, ...] | None = None
    trace_state: str = ""
    flags: int = 0
    dropped_attributes_count: int = 0
    dropped_events_count: int = 0
    dropped_links_count: int = 0
    resource: Resource = NO_RESOURCE
    scope: Scope = NO_SCOPE
    repaired: tuple[str, ...] = ()
    references: list[dict[str, Any]] | None = None
    hashes: list[dict[str, Any]] | None = None
    scores: tuple[Score, ...] = ()
    dropped_scores_count: int = 0
    is_running: bool = False
    session_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None


class Metrics(NamedTuple):
    """What one span itself used: the numbers that the roll-up of a trace adds (``ag.metrics.*.incremental``)."""

    tokens_prompt: float = 0.0
    tokens_completion: float = 0.0
    tokens_total: float = 0.0
    costs_prompt: float = 0.0
    costs_completion: float = 0.0
    costs_total: float = 0.0
    errors: float = 0.0


NO_METRICS = Metrics()
AMOUNTS = ("prompt", "completion", "total")
"""The amounts of tokens and of costs, in the order of ``Metrics``."""

COSTS: Final = Metrics._fields[3:6]
"""The fields that are US dollars."""

COST_DECIMALS: Final = 12
"""Decimal places of costs: a millionth of a millionth of a dollar. Below are only the errors of binary fractions."""

Usage: TypeAlias = tuple[float, float, float]
"""Prompt, completion and total of one unit: tokens, or costs."""

TOTAL_TOLERANCE: Final = 1.000000001
"""How far a total must exceed the sum of its parts to count as more: costs are rounded."""


def is_more_than_parts(prompt: float, completion: float, total: float) -> bool:
    """Return whether a total includes a part that is not known by itself."""
    return total > (prompt + completion) * TOTAL_TOLERANCE


class NormalizedSpan(NamedTuple):
    """The result of normalizing one span (reference §2.2, §3): everything that is derived, nothing that was sent.

    ``sent`` are the attributes, of which ``ag``, in its canonical shape, replaces the one that was sent.
    ``references`` and ``hashes`` are as in responses.
    ``flat`` are the attributes without ``ag``, as sent, if each value is at the path that its key spells, as in most
    spans: their leaves need no traversal. Otherwise ``None``. ``mapping_errors`` are the reasons why attributes of
    known meaning could not be read (``ingest/semconv/rows.py``), one each. ``usage_is_own``: whether ``metrics`` are
    the span's own by definition, so that spans above and below it do not report them too (ADR 0010).
    ``cost_is_computed``: whether the costs among them are list prices. ``scores`` are the scores of the span, those of
    its events among them, newest first, as many as a span may have; ``dropped_scores_count`` says how many more there
    are.
    """

    sent: Nesting
    ag: dict[str, Any]
    trace_type: str
    span_type: str
    references: list[dict[str, Any]] | None = None
    hashes: list[dict[str, Any]] | None = None
    metrics: Metrics = NO_METRICS
    flat: Attributes | None = None
    mapping_errors: Sequence[str] = ()
    usage_is_own: bool = False
    cost_is_computed: bool = False
    scores: tuple[Score, ...] = ()
    dropped_scores_count: int = 0
    session_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None

    @property
    def attributes(self) -> Attributes:
        """The attributes nested, with ``ag``, made each time."""
        return self.sent.nested() | {"ag": self.ag}
