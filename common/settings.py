"""Every setting of Clearspan: name, unit, default, bounds and meaning.

The environment variables begin with ``CLEARSPAN_`` and nest with ``__`` (``CLEARSPAN_INGEST__BATCH_ROWS_MAX``). One
model serves all processes, so that one environment file configures a whole installation and each process notices an
unknown name. ``environment.py`` reads them once, at the composition root. ``docs/settings.md`` lists them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, Self
from uuid import UUID

from pydantic import Field, IPvAnyNetwork, SecretStr, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from typing_extensions import override

from common.errors import InvalidSettings
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Encoding
from common.kafka_settings import KafkaSettings, TopicSettings
from common.limits import KIB, MIB, NESTING_DEPTH_BOUND, SpanLimits
from common.setting_types import PREFIX, Directory, File, Group, Name, Origins, Port, file_variable, secrets_of
from common.store_settings import ClickHouseSettings, PostgresSettings


class DeliverySettings(Group):
    """Subscriptions, and the processes that deliver them."""

    private_addresses: Literal["on", "off"] = "off"
    """on: webhooks and OTLP endpoints may be at loopback, link-local and private addresses."""
    refused_networks: list[IPvAnyNetwork] = Field(default_factory=list)
    """Networks in which no target may be, Kafka included, even if private addresses are allowed: `["192.0.2.0/24"]`."""
    subscriptions_max: int = Field(100, ge=0, le=10_000)
    """Subscriptions of one project; a further one gets 409."""
    batch_spans_max: int = Field(1_000, ge=1, le=10_000)
    """Spans of one batch."""
    batch_bytes_max: int = Field(2 * MIB, ge=KIB, le=64 * MIB)
    """Spans of one batch, in bytes; a larger span is a batch of its own."""
    batches_max: int = Field(64, ge=1, le=10_000)
    """Batches that one process holds in memory at the same time."""
    timeout_s: float = Field(30.0, gt=0, le=600)
    """Time in which a target must acknowledge a batch, in seconds."""
    retry_delay_max_s: float = Field(60.0, gt=0, le=3_600)
    """Longest pause between two tries of a batch, in seconds, unless the target asks for a longer one."""
    retry_for_s: float = Field(86_400.0, gt=0, le=2_592_000)
    """How long a batch is retried before its subscription is paused, in seconds."""
    lease_s: float = Field(10.0, ge=1, le=300)
    """A process that does not renew its leases for this long loses its jobs to another one, in seconds."""
    parquet_directory: Path | None = None
    """The directory in which each project has a folder for its Parquet files; by default there are none."""
    s3_buckets: list[str] = Field(default_factory=list)
    """The S3 buckets in which each project has a prefix for its Parquet files, with the credentials of the process."""
    s3_endpoint: str | None = None
    """The address of a server that speaks S3; by default that of AWS."""
    s3_region: str | None = None
    """The region of the buckets; by default that of the environment."""
    alerts_max: int = Field(100, ge=0, le=10_000)
    """Alerts of one project; a further one gets 409."""
    alert_every_min_s: int = Field(10, ge=1, le=3_600)
    """The shortest time between two evaluations of an alert, in seconds."""


class AccessSettings(Group):
    """Keys, and the audit log of what is done with them."""

    keys_max: int = Field(1_000, ge=1, le=100_000)
    """Keys of one project that are in force; a further one gets 409. As many that have ended are remembered."""
    audit_writes_max: int = Field(100_000, ge=100, le=100_000_000)
    """Changes of one project that the audit log keeps; the oldest go first."""
    audit_refusals_max: int = Field(10_000, ge=100, le=100_000_000)
    """Entries of refused requests that the audit log keeps for one project, and for requests without a valid key."""
    audit_days_max: float = Field(400.0, gt=0, le=36_500)
    """Age at which entries are deleted from the audit log, in days."""


__all__ = [
    "ClickHouseSettings",
    "ComputeSettings",
    "DeliverySettings",
    "Encoding",
    "HttpSettings",
    "IngestSettings",
    "InvalidSettings",
    "KafkaSettings",
    "LimitSettings",
    "PostgresSettings",
    "QuerySettings",
    "RetentionSettings",
    "Settings",
    "TopicSettings",
]

_SPAN_LIMITS: Final = SpanLimits()
_NS_IN_S: Final = 1_000_000_000


class IngestSettings(Group):
    """The worker: batches, retries, shutdown."""

    batch_rows_max: int = Field(20_000, ge=1, le=1_000_000)
    """Spans at which a batch is flushed."""
    batch_bytes_max: int = Field(64 * MIB, ge=1_000)
    """Bytes of decoded columns at which a batch is flushed."""
    batch_age_max_s: float = Field(0.5, gt=0, le=60)
    """Age of its first span at which a batch is flushed, in seconds, or before, when flushing has taken less than a
    third of the time. While there is a backlog it is flushed at four times this age."""
    poll_records_max: int = Field(500, ge=1, le=10_000)
    """Most records taken from Kafka at once."""
    decode_processes: int = Field(2, ge=0, le=8)
    """Child processes that decode, one core each; 0: a thread of the worker decodes."""
    prices_file: File = None
    """File of model prices that replaces the built-in ones; empty: `prices.csv` in the data directory if there is one.
    `clearspan prices --help` describes the format."""
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
    logs: Literal["on", "off"] = "on"
    """off: all log records are refused, those of topics and those that arrive over OTLP."""
    keep_unmaskable: Literal["on", "off"] = "off"
    """on: dead letters that cannot be masked keep their value although their project has masking rules."""


class QuerySettings(Group):
    """The query side: pages, budgets, cursors."""

    page_limit_default: int = Field(100, ge=1, le=10_000)
    """Spans on a page if the request has no limit."""
    page_limit_max: int = Field(10_000, ge=1, le=100_000)
    """Largest limit of a page; a larger one gets 422."""
    page_bytes_max: int = Field(16 * MIB, ge=1_000)
    """A page ends at this size of its spans, in bytes, even before its limit."""
    trace_bytes_max: int = Field(512 * MIB, ge=64 * MIB)
    """Largest trace that is returned as a whole, in bytes; a larger one gets 400. The feed of settled traces leaves out
    its spans."""
    budget_s: float = Field(15.0, gt=0, le=300)
    """Time budget of a query, in seconds."""
    budget_rows: int = Field(100_000_000, ge=100_000, le=1_000_000_000_000)
    """Row budget of a query: most rows that the engine may read to find the spans of a page."""
    queue_s: float = Field(15.0, gt=0, le=300)
    """How long a request waits for a shared resource (connections to the engine or to Postgres, threads, processes for
    large bodies, waiting places), in seconds; then it gets 429. A request of a project without neighbors waits as long
    as others of the project get their turn. If it is at least the time budget, a request within its project's share
    always gets its turn."""
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


class HttpSettings(Group):
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
    allowed_hosts: str = ""
    """Host names, comma separated, under which the API may be used while authentication is off, besides localhost."""
    allowed_origins: Origins = ""
    """Origins, comma separated, whose pages may send OTLP traces from a browser, or `*` for any."""


class ComputeSettings(Group):
    """Child processes of the API, which parse large bodies."""

    processes: int = Field(2, ge=0, le=64)
    """Processes that parse large bodies, started when needed; 0: threads of the API parse them."""
    run_s: float = Field(60.0, ge=1, le=600)
    """Time for one body in a process, in seconds; then it gets 503."""


class RetentionSettings(Group):
    """When old spans are deleted."""

    interval_s: float = Field(3_600.0, ge=1, le=86_400)
    """Time from the start of one run of retention to that of the next, in seconds."""


class LimitSettings(Group):
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
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,  # it may be a secret
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
    settling_s: float = Field(30.0, gt=0, le=86_400)
    """A complete trace settles when no version of its spans was stored for this long, in seconds."""
    settling_max_s: float = Field(900.0, gt=0, le=604_800)
    """A trace that is not complete, or that keeps changing, settles after this long, in seconds; at least
    `CLEARSPAN_SETTLING_S`."""
    default_project_id: UUID = DEFAULT_PROJECT_ID
    """Project of spans that name none."""
    log_format: Literal["text", "json"] = "json"
    """text for people, json for machines."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe level that is logged."""
    embedded_broker: Literal["on", "off"] = "on"
    """off: the embedded stack uses the Kafka of `CLEARSPAN_KAFKA__BOOTSTRAP` instead of a broker of its own."""
    embedded_broker_bytes_max: int = Field(512 * MIB, ge=64 * MIB)
    """Disk space of the records that the embedded broker keeps; producers wait while it is full, in bytes."""
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
    access: AccessSettings = Field(default_factory=AccessSettings)

    @model_validator(mode="after")
    def _settles_in_order(self) -> Self:
        if self.settling_max_s < self.settling_s:
            raise ValueError(
                f"{PREFIX}SETTLING_MAX_S is {self.settling_max_s:g} and {PREFIX}SETTLING_S is {self.settling_s:g};"
                " allowed: at least as much."
            )
        return self

    @classmethod
    @override
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Ignore the variables that name files with secrets: ``environment.py`` reads these files."""
        if isinstance(env_settings, EnvSettingsSource):
            files = {file_variable(name).lower() for name in secrets_of(cls)}
            given = env_settings.env_vars
            env_settings.env_vars = {name: text for name, text in given.items() if name not in files}
        return init_settings, env_settings
