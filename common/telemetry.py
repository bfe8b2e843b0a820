"""Logs and metrics: the set-up of the one, and every one of the other, declared once: name, kind, unit, meaning.

A metric that is not here does not exist; ``docs/metrics.md`` lists them and a test compares. Names end in their unit;
counters end in ``_total`` as Prometheus wants it.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final, Literal, TextIO

import structlog
from prometheus_client import Counter, Gauge, Histogram

Logger = structlog.stdlib.BoundLogger

SECONDS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
ROWS_BUCKETS: Final = (1, 10, 100, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000)
BYTES_BUCKETS: Final = (10_000, 100_000, 1_000_000, 4_000_000, 16_000_000, 64_000_000, 256_000_000)

# The way of a span.
RECORDS_IN: Final = Counter("clearspan_records_in_total", "Records taken from Kafka.", ["topic"])
RECORDS_EMPTY: Final = Counter(
    "clearspan_records_empty_total", "Records without a value: they advance the offset and hold no span.", ["topic"]
)
SPANS_IN: Final = Counter("clearspan_spans_in_total", "Spans found in records, refused ones included.", ["topic"])
SPANS_STORED: Final = Counter("clearspan_spans_stored_total", "Rows that are durable; a redelivery counts again.")
DEAD_LETTERS: Final = Counter(
    "clearspan_dead_letters_total", "Records and spans published to the dead-letter topic.", ["code"]
)
BASE64_IDS: Final = Counter("clearspan_base64_ids_total", "Ids in JSON that came as base64 where hex is the rule.")
MAPPING_ERRORS: Final = Counter(
    "clearspan_semconv_misfits_total",
    "Attributes whose value cannot be what their key says; they stay as they were sent and become no metric.",
    ["reason"],
)
LAG_RECORDS: Final = Gauge(
    "clearspan_lag_records", "Records between our position and the end of a partition.", ["topic", "partition"]
)
BATCH_ROWS: Final = Histogram("clearspan_batch_rows", "Spans of a batch at its flush.", buckets=ROWS_BUCKETS)
BATCH_BYTES: Final = Histogram(
    "clearspan_batch_bytes", "Bytes of a batch at its flush, records and columns.", buckets=BYTES_BUCKETS
)
BATCH_AGE_SECONDS: Final = Histogram(
    "clearspan_batch_age_seconds", "Age of a batch at its flush.", buckets=SECONDS_BUCKETS
)
INSERT_SECONDS: Final = Histogram(
    "clearspan_insert_seconds", "One try to write a batch, by outcome.", ["outcome"], buckets=SECONDS_BUCKETS
)
QUERYABLE_SECONDS: Final = Histogram(
    "clearspan_broker_to_queryable_seconds",
    "From a record's timestamp until its spans can be queried.",
    buckets=SECONDS_BUCKETS,
)
STAGE_SECONDS: Final = Counter(
    "clearspan_stage_seconds_total",
    "Where the worker's time goes: poll, decode, insert, dead_letter, commit, paused. Decode, insert, dead_letter and commit run beside the others.",
    ["stage"],
)
CONSUMER_PAUSED: Final = Gauge("clearspan_consumer_paused", "1 while the worker takes nothing from Kafka.")
PARTITIONS_HELD: Final = Gauge(
    "clearspan_partitions_held", "Partitions paused because record after record was refused.", ["topic", "partition"]
)
DECODER_RESTARTS: Final = Counter(
    "clearspan_decoder_restarts_total", "Decoder processes that ended unasked or hung, and were replaced."
)
LOST_BATCHES: Final = Counter(
    "clearspan_lost_batches_total", "Batches whose partitions moved before the commit; they are read again."
)
ANNOUNCEMENTS: Final = Counter(
    "clearspan_announcements_total",
    "Messages that tell how far spans are stored, by outcome; what is not published is learnt from the table.",
    ["outcome"],
)
NOT_READY: Final = Gauge("clearspan_not_ready", "1 while this is what /readyz is red for.", ["component"])

# The API.
HTTP_REQUEST_SECONDS: Final = Histogram(
    "clearspan_http_request_seconds",
    "Requests by route and status.",
    ["method", "route", "status"],
    buckets=SECONDS_BUCKETS,
)
CALLS_WAITING: Final = Gauge("clearspan_calls_waiting", "Calls that wait for something new.")
DATA_BEHIND_SECONDS: Final = Gauge(
    "clearspan_data_behind_seconds", "Age of the time up to which the last answer was complete (X-Data-Through)."
)
COMPUTE_RESTARTS: Final = Counter(
    "clearspan_compute_restarts_total", "Processes for large requests that ended unasked or hung, and were replaced."
)
INTAKE_SPANS: Final = Counter(
    "clearspan_intake_spans_total", "Spans that came over HTTP, by outcome.", ["route", "outcome"]
)


def configure_logging(
    *,
    log_format: Literal["text", "json"],
    level: Literal["debug", "info", "warning", "error"],
    stream: TextIO | None = None,
) -> None:
    """Send our lines and those of libraries to one stream in one shape, ``stderr`` unless told otherwise.

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
    """A logger whose lines say where they come from; bind what a line is about as keywords."""
    logger: Logger = structlog.stdlib.get_logger(name)
    return logger


def _renderers(log_format: Literal["text", "json"]) -> list[Any]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # Its own choice, where the package for it is there, draws the values of every frame: secrets, and bodies for minutes.
    return [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
