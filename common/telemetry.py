"""Logging set-up, and every metric: name, kind, unit and meaning.

A metric that is not declared here does not exist; ``docs/metrics.md`` lists them, and a test compares. Names end in
their unit, counters in ``_total``, as Prometheus recommends.
"""

from __future__ import annotations

import logging
import sys
from textwrap import indent
from typing import Any, Final, Literal, TextIO

import structlog
from prometheus_client import Counter, Gauge, Histogram

from common.printable import printable

Logger = structlog.stdlib.BoundLogger

SECONDS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
ROWS_BUCKETS: Final = (1, 10, 100, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000)
INDENTATION: Final = "    "
"""Begins the lines of a traceback in the log for people."""

BYTES_BUCKETS: Final = (10_000, 100_000, 1_000_000, 4_000_000, 16_000_000, 64_000_000, 256_000_000)

# The worker.
RECORDS_IN: Final = Counter("clearspan_records_in_total", "Records read from Kafka.", ["topic"])
RECORDS_EMPTY: Final = Counter(
    "clearspan_records_empty_total", "Records read from Kafka that have no value, and so no spans.", ["topic"]
)
SPANS_IN: Final = Counter("clearspan_spans_in_total", "Spans found in records, including rejected spans.", ["topic"])
REFUSED_LOGS: Final = Counter(
    "clearspan_refused_log_records_total",
    "Log records from Kafka that are neither stored nor dead-lettered, by reason.",
    ["topic", "reason"],
)
SPANS_STORED: Final = Counter("clearspan_spans_stored_total", "Rows inserted; a redelivered span counts again.")
EVENTS_STORED: Final = Counter(
    "clearspan_events_stored_total", "Log records stored as events of spans; a redelivered one counts again."
)
SPANS_JOINED: Final = Counter(
    "clearspan_spans_joined_total", "Versions stored because events of log records were added to a span."
)
SPANS_NOT_JOINED: Final = Counter(
    "clearspan_spans_not_joined_total", "Spans that keep a version without events because the next one cannot be made."
)
SCORES_NOT_JOINED: Final = Counter(
    "clearspan_scores_not_joined_total",
    "Annotations that cannot be read, and evaluations whose spans are not found in time: they give no scores.",
)
DEAD_LETTERS: Final = Counter(
    "clearspan_dead_letters_total", "Records and spans published to the dead-letter topic, by code.", ["code"]
)
BASE64_IDS: Final = Counter("clearspan_base64_ids_total", "Ids in OTLP/JSON that were base64 instead of hexadecimal.")
REPAIRED_SPANS: Final = Counter(
    "clearspan_repaired_spans_total",
    "Spans in which something had to be repaired to be stored; the member `repaired` of the span names the places.",
)
MAPPING_ERRORS: Final = Counter(
    "clearspan_semconv_mapping_errors_total",
    "Attributes whose value does not fit their key; the attribute is stored as sent and not mapped.",
    ["reason"],
)
MASKED_VALUES: Final = Counter("clearspan_masked_values_total", "Values that masking rules replaced or removed.")
LAG_RECORDS: Final = Gauge(
    "clearspan_lag_records", "Records between the worker's position and the end of a partition.", ["topic", "partition"]
)
BATCH_ROWS: Final = Histogram("clearspan_batch_rows", "Spans in a batch when it is flushed.", buckets=ROWS_BUCKETS)
BATCH_BYTES: Final = Histogram(
    "clearspan_batch_bytes", "Bytes in a batch when it is flushed: records and columns.", buckets=BYTES_BUCKETS
)
BATCH_AGE_SECONDS: Final = Histogram(
    "clearspan_batch_age_seconds", "Age of a batch when it is flushed.", buckets=SECONDS_BUCKETS
)
INSERT_SECONDS: Final = Histogram(
    "clearspan_insert_seconds", "Duration of one attempt to insert a batch.", ["outcome"], buckets=SECONDS_BUCKETS
)
QUERYABLE_SECONDS: Final = Histogram(
    "clearspan_broker_to_queryable_seconds",
    "Time from the timestamp of a record until queries return its spans.",
    buckets=SECONDS_BUCKETS,
)
STAGE_SECONDS: Final = Counter(
    "clearspan_stage_seconds_total",
    "Time that the worker spends in each stage: poll, decode, insert, dead_letter, commit, paused. Stages overlap.",
    ["stage"],
)
CONSUMER_PAUSED: Final = Gauge("clearspan_consumer_paused", "1 while the worker reads nothing from Kafka, else 0.")
PARTITIONS_HELD: Final = Gauge(
    "clearspan_partitions_held",
    "1 for a partition that the worker holds because too many consecutive records were rejected.",
    ["topic", "partition"],
)
GAPS: Final = Counter(
    "clearspan_gaps_total",
    "Gaps in a partition, by cause: deleted (by retention, before it was read), truncated, created_again.",
    ["topic", "partition", "cause"],
)
GAP_RECORDS: Final = Counter(
    "clearspan_gap_records_total", "Offsets that Kafka deleted before the worker read them.", ["topic", "partition"]
)
DECODER_RESTARTS: Final = Counter(
    "clearspan_decoder_restarts_total", "Decoder processes that crashed or hung and were replaced."
)
LOST_BATCHES: Final = Counter(
    "clearspan_lost_batches_total",
    "Batches whose partitions were revoked before the commit; they are read again, unless their topic was deleted.",
)
ANNOUNCEMENTS: Final = Counter(
    "clearspan_announcements_total", "Announcements of stored positions: published, failed or dropped.", ["outcome"]
)
NOT_READY: Final = Gauge("clearspan_not_ready", "1 for each component that makes /readyz red.", ["component"])

# The API.
HTTP_REQUEST_SECONDS: Final = Histogram(
    "clearspan_http_request_seconds", "Duration of requests.", ["method", "route", "status"], buckets=SECONDS_BUCKETS
)
GRPC_REQUEST_SECONDS: Final = Histogram(
    "clearspan_grpc_request_seconds", "Duration of calls over gRPC.", ["route", "code"], buckets=SECONDS_BUCKETS
)
REQUESTS_WAITING: Final = Gauge("clearspan_requests_waiting", "Requests that wait for new data.")
DATA_BEHIND_SECONDS: Final = Gauge(
    "clearspan_data_behind_seconds", "Age of the time up to which the last response was complete (X-Data-Through)."
)
COMPUTE_RESTARTS: Final = Counter(
    "clearspan_compute_restarts_total", "Processes for large bodies that crashed or hung and were replaced."
)
INTAKE_SPANS: Final = Counter(
    "clearspan_intake_spans_total", "Spans received over HTTP and gRPC.", ["route", "outcome"]
)
AUDIT_ENTRIES: Final = Counter("clearspan_audit_entries_total", "Entries written to the audit log.", ["kind"])
AUDIT_FAILURES: Final = Counter(
    "clearspan_audit_failures_total",
    "Tries to write the audit log that failed. Changes are refused meanwhile; refusals and outcomes are tried again.",
)
AUDIT_LOST: Final = Counter(
    "clearspan_audit_lost_total",
    "Outcomes and refusals that are missing in the audit log: too many waited, or the process ended.",
    ["kind"],
)
TRACES_SETTLED: Final = Counter(
    "clearspan_traces_settled_total", "Traces that this process has settled, each time.", ["reason"]
)
SETTLING_RUN_SECONDS: Final = Histogram(
    "clearspan_settling_run_seconds", "Duration of runs of settling in this process.", buckets=SECONDS_BUCKETS
)
SETTLING_BEHIND_SECONDS: Final = Gauge(
    "clearspan_settling_behind_seconds", "How much later than CLEARSPAN_SETTLING_S complete traces settle now."
)
SETTLING_INCOMPLETE_TRACES: Final = Gauge(
    "clearspan_settling_incomplete_traces",
    "Traces that were quiet and incomplete, and have not been waited for enough.",
)
RETENTION_RUN_SECONDS: Final = Histogram(
    "clearspan_retention_run_seconds", "Duration of runs of retention in this process.", buckets=SECONDS_BUCKETS
)
RETENTION_DELETED_TRACES: Final = Counter(
    "clearspan_retention_deleted_traces_total", "Traces that retention has deleted."
)
RETENTION_DELETED_SPANS: Final = Counter("clearspan_retention_deleted_spans_total", "Spans that retention has deleted.")
RETENTION_DELETED_BYTES: Final = Counter(
    "clearspan_retention_deleted_bytes_total", "Estimated size of the spans that retention has deleted."
)
RETENTION_FREED_ROWS: Final = Counter(
    "clearspan_retention_freed_rows_total", "Rows of deleted spans that were removed from the disk.", ["table"]
)

# Subscriptions.
DELIVERED_SPANS: Final = Counter(
    "clearspan_delivered_spans_total", "Spans that a target has acknowledged; a replayed span counts again.", ["target"]
)
DELIVERIES: Final = Counter(
    "clearspan_deliveries_total", "Tries to deliver a batch: delivered, unavailable or refused.", ["target", "outcome"]
)
DELIVERY_SECONDS: Final = Histogram(
    "clearspan_delivery_seconds",
    "Time until a target has acknowledged or refused a batch.",
    ["target"],
    buckets=SECONDS_BUCKETS,
)
DELIVERY_LAG_SECONDS: Final = Histogram(
    "clearspan_delivery_lag_seconds",
    "Time from the storing of the oldest span of a batch to its acknowledgement.",
    ["target"],
    buckets=SECONDS_BUCKETS,
)
SUBSCRIPTIONS: Final = Gauge(
    "clearspan_subscriptions", "Subscriptions that are active, retrying or paused.", ["status"]
)
SUBSCRIPTIONS_HELD: Final = Gauge("clearspan_subscriptions_held", "Subscriptions that this process delivers.")
REJECTED_SPANS: Final = Counter(
    "clearspan_target_rejected_spans_total",
    "Spans that a target has acknowledged and rejected, or of traces that are too large to deliver.",
    ["target"],
)
EXPIRED_SPANS: Final = Counter(
    "clearspan_expired_spans_total",
    "Spans that matched a subscription and were deleted before their delivery.",
    ["target"],
)

# Alerts.
ALERTS: Final = Gauge("clearspan_alerts", "Alerts that are active, retrying or paused.", ["status"])
ALERT_EVALUATIONS: Final = Counter("clearspan_alert_evaluations_total", "Evaluations of alerts.", ["outcome"])
ALERT_DELAY_SECONDS: Final = Histogram(
    "clearspan_alert_delay_seconds",
    "Time from when an evaluation was due to its begin.",
    buckets=SECONDS_BUCKETS,
)
ALERT_MESSAGES: Final = Counter(
    "clearspan_alert_messages_total",
    "Tries to deliver a message of an alert: delivered, unavailable or refused.",
    ["target", "outcome"],
)


def configure_logging(
    *,
    log_format: Literal["text", "json"],
    level: Literal["debug", "info", "warning", "error"],
    stream: TextIO | None = None,
) -> None:
    """Send all log lines, including those of libraries, to ``stream`` (default ``stderr``) in one format.

    Safe to call again: the last call counts.
    """
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(log_format)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def get_logger(name: str) -> Logger:
    """Return a logger that adds its name to each line; pass what a line is about as keywords."""
    logger: Logger = structlog.stdlib.get_logger(name)
    return logger


def _renderers(log_format: Literal["text", "json"]) -> list[Any]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # `ConsoleRenderer` would print the variables of every frame, if rich is installed: secrets, and large bodies.
    return [structlog.processors.format_exc_info, _TextRenderer()]


class _TextRenderer:
    """Renders a line for people. No text from outside can begin a line or command the terminal that shows it.

    Below the line follow the stack and the traceback, indented.
    """

    def __init__(self) -> None:
        self._line = structlog.dev.ConsoleRenderer(colors=False)

    def __call__(self, logger: Any, method: str, members: dict[str, Any]) -> str:
        below = [str(members.pop(name)) for name in ("stack", "exception") if name in members]
        line = printable(self._line(logger, method, members))
        return "\n".join([line, *(indent(printable(block, keep="\n"), INDENTATION) for block in below)])
