"""Every setting of Clearspan: name, unit, default, bounds and meaning.

The environment variables begin with ``CLEARSPAN_`` and nest with ``__`` (``CLEARSPAN_INGEST__BATCH_ROWS_MAX``). One
model serves all processes, so that one environment file configures a whole installation and each process notices an
unknown name. ``environment.py`` reads them once, at the composition root; everything else gets plain values.
``docs/settings.md`` lists them; a test compares the page with these docstrings.
"""

from __future__ import annotations

import re
from contextlib import suppress
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import parse_qs
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from common.delivery_settings import DeliverySettings
from common.ids import DEFAULT_PROJECT_ID
from common.limits import KIB, MIB, NESTING_DEPTH_BOUND, SpanLimits

PREFIX: Final = "CLEARSPAN_"
_SPAN_LIMITS: Final = SpanLimits()
_NS_IN_S: Final = 1_000_000_000

_SERVER: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(?P<port>[0-9]{1,5}))?|[0-9A-Fa-f:.]+", re.ASCII)
"""A host or an address; an IPv6 address is in brackets if a port follows."""
_HOST: Final = re.compile(r"[\w.-]+")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SSL_MODES: Final = frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"})


class InvalidSettings(Exception):
    """A setting is unknown or invalid. The message names it and says what is allowed."""


def _servers(text: str) -> str:
    for server in text.split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or int(found["port"] or 1) not in range(1, 65_536):
            raise PydanticCustomError("servers", "Input should be host:port, comma separated")
    return text


def _host(text: str) -> str:
    with suppress(ValueError):  # an IPv6 address, the only host that contains a colon
        ip_address(text.removeprefix("[").removesuffix("]"))
        return text
    if not _HOST.fullmatch(text):
        raise PydanticCustomError("host", "Input should be a host or an address, without scheme and port")
    return text


def _directory(path: object) -> object:
    if path == "":
        raise PydanticCustomError("directory", "Input should be the path of a directory")
    return path


def _topic(name: str) -> str:
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise PydanticCustomError("topic", "Input should be a valid Kafka topic: 1 to 249 of A-Z a-z 0-9 . _ -")
    return name


def _postgres_dsn(dsn: SecretStr) -> SecretStr:
    """Check a connection string. The messages quote nothing of it: a password may be anywhere in it."""
    scheme, colon, rest = dsn.get_secret_value().partition("://")
    if not colon or scheme not in ("postgresql", "postgres"):
        raise ValueError("a connection string begins with postgresql:// or postgres://")
    hosts = rest.partition("?")[0].partition("/")[0].rpartition("@")[2].split(",")
    ports = [host.rpartition("]")[2].partition(":")[2] or "0" for host in hosts]
    if any(not port.isdecimal() or int(port) > 65_535 for port in ports):
        raise ValueError("a port in it is not a number from 0 to 65535; percent-encode / @ : and ? in a password")
    modes = parse_qs(rest.partition("?")[2]).get("sslmode", [])
    if not _SSL_MODES.issuperset(modes):  # otherwise the process would wait as if the database were down
        raise ValueError(f"sslmode in it is not one of {', '.join(sorted(_SSL_MODES))}")
    return dsn


Port = Annotated[int, Field(ge=0, le=65_535)]
Name = Annotated[str, Field(min_length=1)]
"""An empty host would listen on every address of the machine; Kafka has no empty group."""
Host = Annotated[str, AfterValidator(_host)]
Servers = Annotated[str, AfterValidator(_servers)]
Directory = Annotated[Path, BeforeValidator(_directory)]
Topic = Annotated[str, AfterValidator(_topic)]
File = Annotated[Path | None, BeforeValidator(lambda path: None if path == "" else path)]


class Encoding(StrEnum):
    """How the value of a record is encoded unless its header ``content-type`` says otherwise (contract §4)."""

    OTLP_PROTO = "otlp_proto"
    OTLP_JSON = "otlp_json"
    SPAN_JSON = "span_json"


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class TopicSettings(_Group):
    """One topic that the worker reads."""

    encoding: Encoding
    project_id: UUID | None = None


def _default_topics() -> dict[str, TopicSettings]:
    return {
        "otlp_spans": TopicSettings(encoding=Encoding.OTLP_PROTO),
        "otlp_spans_json": TopicSettings(encoding=Encoding.OTLP_JSON),
        "spans": TopicSettings(encoding=Encoding.SPAN_JSON),
    }


class KafkaSettings(_Group):
    """The broker, the topics and the consumer group."""

    bootstrap: Servers = "127.0.0.1:9092"
    """Bootstrap servers, comma separated."""
    group: Name = "clearspan"
    """Consumer group of the ingest worker."""
    topics: dict[str, TopicSettings] = Field(default_factory=_default_topics)
    """Topics that the worker reads: a JSON object of name → {encoding, project_id?}."""
    intake_topic: Topic = "spans"
    """Topic for spans that arrive over HTTP as JSON span objects; one of the topics that the worker reads."""
    otlp_topic: Topic = "otlp_spans"
    """Topic for spans that arrive over HTTP as OTLP; one of the topics that the worker reads."""
    dead_letter_topic: Topic = Field("spans.dead_letter", validate_default=True)
    """Topic for rejected records and spans."""
    stored_topic: Topic = Field("spans.stored", validate_default=True)
    """Topic in which workers announce how far spans are stored; it has one partition."""
    partitions: int = Field(4, ge=1, le=1_000)
    """Partitions of a topic that is created at the start."""
    replication_factor: int = Field(1, ge=-1, le=10)
    """Replicas of a topic that is created at the start; -1 is the broker's default."""
    message_bytes_max: int = Field(12 * MIB, ge=1_000, le=1_024 * MIB)
    """Largest record that is produced or fetched, in bytes."""
    request_timeout_s: float = Field(10.0, gt=0, le=300)
    """Deadline of one request to the broker, in seconds."""
    session_timeout_s: float = Field(10.0, ge=1, le=300)
    """A worker that sends no heartbeat for this long loses its partitions, in seconds."""

    @field_validator("topics")
    @classmethod
    def _have_names(cls, topics: dict[str, TopicSettings]) -> dict[str, TopicSettings]:
        if not topics:
            raise PydanticCustomError("topics", "Input should contain at least one topic")
        for name in topics:
            _topic(name)
        return topics

    @field_validator("dead_letter_topic", "stored_topic")
    @classmethod
    def _not_read(cls, topic: str, info: ValidationInfo) -> str:
        """A worker that reads its own output would dead-letter it, read that, and so on forever."""
        if topic in info.data.get("topics", {}):
            raise PydanticCustomError("topic", "Input should not be one of the topics that the worker reads")
        return topic


class ClickHouseSettings(_Group):
    """The engine."""

    interface: Literal["http", "https", "chdb"] = "http"
    """http or https: a server; chdb: inside the process."""
    host: Host = "127.0.0.1"
    """Host of the server."""
    port: Port = 8123
    """HTTP port of the server."""
    username: str = "default"
    """User of the server."""
    password: SecretStr = SecretStr("")
    """Password of the server."""
    database: str = Field("clearspan", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Database; `clearspan migrate` creates it."""
    cluster: str = Field("", pattern=r"^[A-Za-z0-9_.-]*$")
    """Name of the cluster; empty: one server."""
    connections: int = Field(4, ge=1, le=64)
    """Connections for queries, which run at the same time."""
    insert_timeout_s: float = Field(60.0, gt=0, le=600)
    """Deadline of one insert, in seconds."""
    memory_bytes_max: int = Field(1_024 * MIB, ge=64 * MIB, le=1_024 * 1_024 * MIB)
    """Memory of one query in the engine, in bytes; a query that needs more gets 504."""
    insert_memory_bytes_max: int = Field(4_096 * MIB, ge=64 * MIB, le=1_024 * 1_024 * MIB)
    """Memory of one insert or migration in the engine, in bytes; should be several times that of a batch."""


class PostgresSettings(_Group):
    """Projects, keys, applications and saved queries."""

    dsn: Annotated[SecretStr, AfterValidator(_postgres_dsn)] = SecretStr(
        "postgresql://clearspan@127.0.0.1:5432/clearspan"
    )
    """Connection string. If it has no password, that of PGPASSWORD is used."""
    connections_max: int = Field(8, ge=1, le=100)
    """Connections in the pool."""
    timeout_s: float = Field(5.0, gt=0, le=60)
    """Deadline of one statement, in seconds."""


class IngestSettings(_Group):
    """The worker: batches, retries, shutdown."""

    batch_rows_max: int = Field(20_000, ge=1, le=1_000_000)
    """Spans at which a batch is flushed."""
    batch_bytes_max: int = Field(64 * MIB, ge=1_000)
    """Bytes of decoded columns at which a batch is flushed."""
    batch_age_max_s: float = Field(0.5, gt=0, le=60)
    """Age of its first span at which a batch is flushed, in seconds; four times as much while there is a backlog."""
    poll_records_max: int = Field(500, ge=1, le=10_000)
    """Most records taken from Kafka at once."""
    decode_processes: int = Field(2, ge=0, le=8)
    """Child processes that decode, one core each; 0: a thread of the worker decodes."""
    prices_file: File = None
    """File of model prices that replaces the built-in ones; `clearspan prices --help` describes the format."""
    retry_delay_max_s: float = Field(10.0, gt=0, le=300)
    """Longest pause between two tries after a transient failure, in seconds."""
    flush_late_s: float = Field(10.0, gt=0, le=600)
    """A batch that takes longer than this to decode, write, dead-letter or commit turns `/readyz` red, in seconds."""
    shutdown_grace_s: float = Field(20.0, gt=0, le=600)
    """Time to flush and commit after SIGTERM, in seconds. The embedded stack takes longer while work progresses: it
    gives up when nothing was stored for this long."""
    dead_letter_streak_max: int = Field(10_000, ge=1)
    """Consecutive records of a partition that cannot be decoded and name no project; after more, the worker holds the
    partition."""
    keep_unmaskable: Literal["on", "off"] = "off"
    """on: dead letters that cannot be masked keep their value although their project has masking rules."""


class QuerySettings(_Group):
    """The query side: pages, budgets, cursors."""

    page_limit_default: int = Field(100, ge=1, le=10_000)
    """Spans on a page if the request has no limit."""
    page_limit_max: int = Field(10_000, ge=1, le=100_000)
    """Largest limit of a page; a larger one gets 422."""
    page_bytes_max: int = Field(16 * MIB, ge=1_000)
    """A page ends at this size of its spans, in bytes, even before its limit."""
    trace_bytes_max: int = Field(512 * MIB, ge=64 * MIB)
    """Largest trace that is returned as a whole, in bytes; a larger one gets 400."""
    budget_s: float = Field(15.0, gt=0, le=300)
    """Time budget of a query, in seconds."""
    budget_rows: int = Field(100_000_000, ge=100_000, le=1_000_000_000_000)
    """Row budget of a query: most rows that the engine may read to find the spans of a page."""
    queue_s: float = Field(15.0, gt=0, le=300)
    """How long a request waits for a shared resource (connections to the engine or to Postgres, threads, processes for
    large bodies, waiting places), in seconds; then it gets 429. If it is at least the time budget, a request within its
    project's share always gets its turn."""
    waiting_max: int = Field(1_000, ge=0, le=100_000)
    """Requests that wait for new data at the same time; a further one gets 429."""
    exports_max: int = Field(4, ge=1, le=64)
    """Exports that run at the same time; a further one waits for its turn, then gets 429."""
    stored_reread_s: float = Field(10.0, gt=0, le=3_600)
    """While requests wait and no announcement arrives, interval at which the stored positions are read from the
    table, in seconds."""
    wait_for_max_s: float = Field(15.0, gt=0, le=60)
    """How long a request waits for the Kafka coordinates that it names, in seconds; then it gets 504."""
    cursor_secret: SecretStr = SecretStr("")
    """Secret that signs cursors; empty: one that `clearspan migrate` creates and Postgres keeps."""


class HttpSettings(_Group):
    """Connections, both of the API and of the worker's port."""

    connections_max: int = Field(2_000, ge=10, le=1_000_000)
    """Open connections of one port; a further one gets 503 and is closed."""
    header_timeout_s: float = Field(10.0, gt=0, le=300)
    """Time in which the headers of a request must arrive, in seconds; then it gets 408."""
    headers_bytes_max: int = Field(64 * KIB, ge=1_000, le=MIB)
    """Request line and headers of one request together, in bytes; more gets 400."""
    bodies_bytes_max: int = Field(512 * MIB, ge=MIB)
    """Memory for the bodies of all requests that are being received or parsed, in bytes; more gets 429."""
    body_timeout_s: float = Field(120.0, gt=0, le=3_600)
    """Time in which a body must arrive, in seconds; then it gets 400."""
    body_rate_min: int = Field(KIB, ge=0, le=MIB)
    """Slowest rate of a body after its first ten seconds, in bytes per second; a slower one gets 400."""
    stall_timeout_s: float = Field(60.0, gt=0, le=3_600)
    """How long a streamed response waits for a client that does not read, in seconds; then the connection is closed."""


class ComputeSettings(_Group):
    """Child processes of the API, which parse large bodies."""

    processes: int = Field(2, ge=0, le=64)
    """Processes that parse large bodies, started when needed; 0: threads of the API parse them."""
    run_s: float = Field(60.0, ge=1, le=600)
    """Time for one body in a process, in seconds; then it gets 503."""


class RetentionSettings(_Group):
    """When old spans are deleted."""

    interval_s: float = Field(3_600.0, ge=1, le=86_400)
    """Time from the start of one run of retention to that of the next, in seconds."""


class LimitSettings(_Group):
    """The largest input (contract §6)."""

    body_bytes_max: int = Field(10 * MIB, ge=1_000, le=1_024 * MIB)
    """HTTP body after decompression, in bytes; more gets 413."""
    body_values_max: int = Field(200_000, ge=1_000, le=10_000_000)
    """Values in a JSON body (strings, numbers, booleans, nulls, objects and arrays) on routes that take no spans;
    more gets 413."""
    record_bytes_max: int = Field(_SPAN_LIMITS.record_bytes_max, ge=1_000, le=1_024 * MIB)
    """Value of a Kafka record, in bytes."""
    span_bytes_max: int = Field(_SPAN_LIMITS.span_bytes_max, ge=1_000, le=1_024 * MIB)
    """One span as encoded in its record, in bytes."""
    nesting_depth_max: int = Field(_SPAN_LIMITS.nesting_depth_max, ge=1, le=NESTING_DEPTH_BOUND)
    """Levels of nested attribute values."""
    past_s_min: int = Field(_SPAN_LIMITS.past_ns_min // _NS_IN_S, ge=0)
    """Earliest valid time of a span, in seconds since 1970 (2000-01-01)."""
    ahead_s_max: int = Field(_SPAN_LIMITS.ahead_ns_max // _NS_IN_S, ge=0)
    """How far ahead of the clock the time of a span may be, in seconds; never after 2262."""
    embeds_max: int = Field(1_000, ge=0, le=10_000)
    """Embedded references that one request may resolve."""
    embed_depth_max: int = Field(20, ge=0, le=50)
    """Levels of embedded references inside each other."""
    resolved_bytes_max: int = Field(4 * MIB, ge=1_000, le=64 * MIB)
    """Data of a revision after its embedded references are resolved, in bytes; more gets 400."""

    def span_limits(self) -> SpanLimits:
        """Return the limits that the codecs apply."""
        return SpanLimits(
            record_bytes_max=self.record_bytes_max,
            span_bytes_max=self.span_bytes_max,
            nesting_depth_max=self.nesting_depth_max,
            past_ns_min=self.past_s_min * _NS_IN_S,
            ahead_ns_max=self.ahead_s_max * _NS_IN_S,
        )


class Settings(BaseSettings):
    """All settings of all processes."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    api_host: Name = "127.0.0.1"
    """Address on which the API listens."""
    api_port: Port = 8080
    """Port of the API."""
    otlp_http_port: Port = 4318
    """Second port of the API, for OTLP over HTTP only: SDKs send there by default. 0: off."""
    otlp_grpc_port: Port = 4317
    """Port of the API for OTLP over gRPC: SDKs send there by default. 0: off."""
    worker_host: Name = "127.0.0.1"
    """Address on which the worker serves its health and metrics."""
    worker_port: Port = 8081
    """Port of the worker's health and metrics."""
    deliver_host: Name = "127.0.0.1"
    """Address on which `clearspan deliver` serves its health and metrics."""
    deliver_port: Port = 8082
    """Port of the health and metrics of `clearspan deliver`."""
    kafka_port: Port = 9092
    """Port of the embedded broker."""
    data_dir: Directory = Path(".clearspan")
    """Directory in which the embedded stack keeps its data."""
    auth: Literal["on", "off"] = "on"
    """off: every request belongs to the default project, and the API listens on loopback only."""
    admin_key: SecretStr = SecretStr("")
    """Key of the /admin routes; empty: they answer 401."""
    default_project_id: UUID = DEFAULT_PROJECT_ID
    """Project of spans that name none."""
    log_format: Literal["text", "json"] = "json"
    """text for people, json for machines."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe level that is logged."""
    embedded_broker_bytes_max: int = Field(512 * MIB, ge=64 * MIB)
    """Memory at which the embedded broker is drained and replaced by a new one, in bytes."""
    kafka: KafkaSettings = Field(default_factory=KafkaSettings)
    clickhouse: ClickHouseSettings = Field(default_factory=ClickHouseSettings)
    postgres: PostgresSettings = Field(default_factory=PostgresSettings)
    ingest: IngestSettings = Field(default_factory=IngestSettings)
    query: QuerySettings = Field(default_factory=QuerySettings)
    retention: RetentionSettings = Field(default_factory=RetentionSettings)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    compute: ComputeSettings = Field(default_factory=ComputeSettings)
    delivery: DeliverySettings = Field(default_factory=DeliverySettings)
