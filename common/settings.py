"""Every setting of Clearspan: name, unit, default and bound; the only place that reads the environment.

All begin with ``CLEARSPAN_`` and nest with ``__`` (``CLEARSPAN_INGEST__BATCH_ROWS_MAX``). One model serves all processes, so that one
environment file configures a whole installation and an unknown name is noticed by each. Read once in the composition
root, then passed down as plain values. ``docs/settings.md`` lists them; a test compares.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal, get_args, get_origin
from urllib.parse import parse_qs
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from common.limits import KIB, MIB, NESTING_DEPTH_BOUND, SpanLimits
from common.project import DEFAULT_PROJECT_ID

PREFIX: Final = "CLEARSPAN_"
_JSON: Final = ("kafka", "topics")

_SERVER: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(?P<port>[0-9]{1,5}))?|[0-9A-Fa-f:.]+", re.ASCII)
"""A host or an address, an IPv6 one in brackets where a port follows."""


_HOST: Final = re.compile(r"[\w.-]+")

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _servers(text: str) -> str:
    for server in text.split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or int(found["port"] or 1) not in range(1, 65_536):
            raise PydanticCustomError("servers", "Input should be host:port, comma separated")
    return text


def _host(text: str) -> str:
    with suppress(ValueError):  # an IPv6 address, the only host with a colon in it
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
        raise PydanticCustomError("topic", "Input should be a name that Kafka takes: 1 to 249 of A-Z a-z 0-9 . _ -")
    return name


Port = Annotated[int, Field(ge=0, le=65_535)]
Name = Annotated[str, Field(min_length=1)]
"""Of a host: an empty one would listen on every address of the machine. Of a group: Kafka takes no empty one."""
Host = Annotated[str, AfterValidator(_host)]
Servers = Annotated[str, AfterValidator(_servers)]
Directory = Annotated[Path, BeforeValidator(_directory)]
Topic = Annotated[str, AfterValidator(_topic)]
File = Annotated[Path | None, BeforeValidator(lambda path: None if path == "" else path)]


_SSL_MODES: Final = frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"})


def _address_of_postgres(dsn: SecretStr) -> SecretStr:
    """What is wrong is told without a word of the string: a password may stand anywhere in it."""
    scheme, colon, rest = dsn.get_secret_value().partition("://")
    if not colon or scheme not in ("postgresql", "postgres"):
        raise ValueError("a connection string begins with postgresql:// or postgres://")
    hosts = rest.partition("?")[0].partition("/")[0].rpartition("@")[2].split(",")
    ports = [host.rpartition("]")[2].partition(":")[2] or "0" for host in hosts]
    if any(not port.isdecimal() or int(port) > 65_535 for port in ports):
        raise ValueError("a port in it is no number from 0 to 65535; in a password, / @ : and ? are percent-encoded")
    modes = parse_qs(rest.partition("?")[2]).get("sslmode", [])
    if not _SSL_MODES.issuperset(modes):  # else the database would be waited for as if it were away
        raise ValueError(f"sslmode in it is none of {', '.join(sorted(_SSL_MODES))}")
    return dsn


class Encoding(StrEnum):
    """How the value of a record is encoded when its headers do not say (contract §4)."""

    OTLP_PROTO = "otlp_proto"
    OTLP_JSON = "otlp_json"
    SPAN_JSON = "span_json"


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TopicSettings(_Group):
    """One topic that is read."""

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

    bootstrap: Servers = Field("127.0.0.1:9092", description="Bootstrap servers, comma separated.")
    group: Name = Field("clearspan", description="Consumer group of the ingest worker.")
    topics: dict[str, TopicSettings] = Field(
        default_factory=_default_topics,
        description="Topics that are read: JSON object of name → {encoding, project_id?}.",
    )
    intake_topic: Topic = Field(
        "spans",
        description="Where spans go that arrive over HTTP as JSON span objects; one of the topics that are read.",
    )
    otlp_topic: Topic = Field(
        "otlp_spans", description="Where spans go that arrive over HTTP as OTLP; one of the topics that are read."
    )
    dead_letter_topic: Topic = Field(
        "spans.dead_letter", validate_default=True, description="Where refused records and spans go."
    )
    stored_topic: Topic = Field(
        "spans.stored",
        validate_default=True,
        description="Where workers announce how far spans are stored; one partition.",
    )
    partitions: int = Field(4, ge=1, le=1_000, description="Partitions of a topic that is created at the start.")
    replication_factor: int = Field(
        1, ge=-1, le=10, description="Replicas of a topic that is created; -1 is the broker's default."
    )
    message_bytes_max: int = Field(
        12 * MIB, ge=1_000, le=1_024 * MIB, description="Largest record that is produced or fetched, in bytes."
    )
    request_timeout_s: float = Field(
        10.0, gt=0, le=300, description="Deadline of one request to the broker, in seconds."
    )
    session_timeout_s: float = Field(
        10.0, ge=1, le=300, description="A worker that is silent so long loses its partitions, in seconds."
    )

    @field_validator("topics")
    @classmethod
    def _have_names(cls, topics: dict[str, TopicSettings]) -> dict[str, TopicSettings]:
        if not topics:
            raise PydanticCustomError("topics", "Input should name a topic at least")
        for name in topics:
            _topic(name)
        return topics

    @field_validator("dead_letter_topic", "stored_topic")
    @classmethod
    def _not_read(cls, topic: str, info: ValidationInfo) -> str:
        """A worker that reads what it writes buries it, reads that, and so on for ever."""
        if topic in info.data.get("topics", {}):
            raise PydanticCustomError("topic", "Input should be none of the topics that are read")
        return topic


class ClickHouseSettings(_Group):
    """The engine. ``interface`` decides whether it is a server or inside this process."""

    interface: Literal["http", "https", "chdb"] = Field(
        "http", description="http or https: a server; chdb: in this process."
    )
    host: Host = Field("127.0.0.1", description="Host of the server.")
    port: Port = Field(8123, description="HTTP port of the server.")
    username: str = Field("default", description="User of the server.")
    password: SecretStr = Field(SecretStr(""), description="Password of the server.")
    database: str = Field("clearspan", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Database; created by migrate.")
    cluster: str = Field("", pattern=r"^[A-Za-z0-9_.-]*$", description="Name of the cluster; empty: one server.")
    connections: int = Field(4, ge=1, le=64, description="Handles for queries, used at the same time.")
    insert_timeout_s: float = Field(60.0, gt=0, le=600, description="Deadline of one insert, in seconds.")
    memory_bytes_max: int = Field(
        1_024 * MIB,
        ge=64 * MIB,
        le=1_024 * 1_024 * MIB,
        description="Memory of one query in the engine, in bytes; 504 past it.",
    )
    insert_memory_bytes_max: int = Field(
        4_096 * MIB,
        ge=64 * MIB,
        le=1_024 * 1_024 * MIB,
        description="Memory of one insert or migration in the engine, in bytes; several times that of a batch.",
    )


class PostgresSettings(_Group):
    """The relational side: projects, keys, lineage."""

    dsn: Annotated[SecretStr, AfterValidator(_address_of_postgres)] = Field(
        SecretStr("postgresql://clearspan@127.0.0.1:5432/clearspan"),
        description="Connection string. A password that it lacks is that of PGPASSWORD.",
    )
    connections_max: int = Field(8, ge=1, le=100, description="Connections in the pool.")
    timeout_s: float = Field(5.0, gt=0, le=60, description="Deadline of one statement, in seconds.")


class IngestSettings(_Group):
    """The worker: batches, retries, shutdown."""

    batch_rows_max: int = Field(20_000, ge=1, le=1_000_000, description="A batch is flushed at so many spans.")
    batch_bytes_max: int = Field(64 * MIB, ge=1_000, description="… or at so many bytes of decoded columns.")
    batch_age_max_s: float = Field(
        0.5,
        gt=0,
        le=60,
        description="… or when its first span is so old, in seconds; four times as old while there is a backlog.",
    )
    poll_records_max: int = Field(500, ge=1, le=10_000, description="Records taken from Kafka at once.")
    decode_processes: int = Field(
        2, ge=0, le=8, description="Processes that decode, each of them a core; 0: a thread of the worker does it."
    )
    prices_file: File = Field(
        None, description="Prices of models, in place of the program's own; `clearspan prices --help` tells the format."
    )
    retry_delay_max_s: float = Field(
        10.0, gt=0, le=300, description="Longest pause between two tries of a transient failure."
    )
    flush_late_s: float = Field(
        10.0,
        gt=0,
        le=600,
        description="A batch that takes longer to decode, write, dead-letter or commit turns `/readyz` red, in seconds.",
    )
    shutdown_grace_s: float = Field(
        20.0,
        gt=0,
        le=600,
        description="Time to flush and commit after SIGTERM, in seconds; the embedded stack goes on while work progresses and gives up"
        " when nothing has moved for so long.",
    )
    dead_letter_streak_max: int = Field(
        10_000,
        ge=1,
        description="Records in a row on a partition that cannot be decoded and name no project: past it the worker holds the partition.",
    )


class QuerySettings(_Group):
    """The query side: pages, budgets, cursors."""

    page_limit_default: int = Field(100, ge=1, le=10_000, description="Spans on a page when the request does not say.")
    page_limit_max: int = Field(10_000, ge=1, le=100_000, description="Most spans on a page; 422 past it.")
    page_bytes_max: int = Field(16 * MIB, ge=1_000, description="A page also ends at so many bytes of spans.")
    trace_bytes_max: int = Field(
        512 * MIB, ge=64 * MIB, description="A trace of more bytes is not answered as a whole; 400 past it."
    )
    budget_s: float = Field(15.0, gt=0, le=300, description="Time budget of a query, in seconds.")
    budget_rows: int = Field(
        100_000_000,
        ge=100_000,
        le=1_000_000_000_000,
        description="Row budget of a query: so many the engine may read to find the spans of a page.",
    )
    queue_s: float = Field(
        15.0,
        gt=0,
        le=300,
        description="How long a call waits for its turn at a shared resource (handles of the engine, threads, processes"
        " for large bodies, connections to Postgres, places to wait), in seconds; 429 past it. If it is at least the budget, a call within its share always gets its turn.",
    )
    waiting_max: int = Field(
        1_000, ge=0, le=100_000, description="Calls that wait for something new at the same time; 429 past it."
    )
    stored_reread_s: float = Field(
        10.0,
        gt=0,
        le=3_600,
        description="While somebody waits and nothing is announced, how far spans are stored is read so often, in seconds.",
    )
    wait_for_max_s: float = Field(
        15.0, gt=0, le=60, description="How long a request waits for the Kafka coordinates that it names; 504 past it."
    )
    cursor_secret: SecretStr = Field(
        SecretStr(""), description="Signs cursors; empty: one that migrate made and Postgres keeps."
    )


class HttpSettings(_Group):
    """Connections, of the API and of the worker's port."""

    connections_max: int = Field(
        2_000, ge=10, le=1_000_000, description="Open connections of one port; a further one gets 503 and is closed."
    )
    header_timeout_s: float = Field(
        10.0, gt=0, le=300, description="A request whose headers are not complete by then gets 408, in seconds."
    )
    headers_bytes_max: int = Field(
        64 * KIB, ge=1_000, le=MIB, description="Request line and headers of one request together; 400 past it."
    )
    bodies_bytes_max: int = Field(
        512 * MIB, ge=MIB, description="Bodies of all requests that are being received or read, in memory; 429 past it."
    )
    body_timeout_s: float = Field(
        120.0, gt=0, le=3_600, description="A body that is not complete by then gets 400, in seconds."
    )
    body_rate_min: int = Field(
        KIB,
        ge=0,
        le=MIB,
        description="A body that arrives more slowly gets 400, in bytes a second, from the tenth second on.",
    )


class ComputeSettings(_Group):
    """Child processes of the API, which read large bodies."""

    processes: int = Field(
        2,
        ge=0,
        le=64,
        description="Processes that read large bodies, started when needed; 0: threads of the API do it.",
    )
    run_s: float = Field(60.0, ge=1, le=600, description="How long a process may take for one body; 503 past it.")


class LimitSettings(_Group):
    """What is taken in at most (contract §6)."""

    body_bytes_max: int = Field(10 * MIB, ge=1_000, le=1_024 * MIB, description="HTTP body, inflated; 413 past it.")
    body_values_max: int = Field(
        200_000,
        ge=1_000,
        le=10_000_000,
        description="Values in a JSON body, on the routes that take no spans: texts, numbers, booleans, nulls, objects and"
        " arrays; 413 past it.",
    )
    record_bytes_max: int = Field(10 * MIB, ge=1_000, le=1_024 * MIB, description="Value of a Kafka record.")
    span_bytes_max: int = Field(4 * MIB, ge=1_000, le=1_024 * MIB, description="One span, as it stood in its record.")
    nesting_depth_max: int = Field(24, ge=1, le=NESTING_DEPTH_BOUND, description="Levels of nested attribute values.")
    past_s_min: int = Field(946_684_800, ge=0, description="Earliest legal time, seconds since 1970 (2000-01-01).")
    ahead_s_max: int = Field(
        24 * 3600, ge=0, description="How far ahead of the clock a time may be, in seconds; no later than 2262."
    )

    embeds_max: int = Field(1_000, ge=0, le=10_000, description="Embedded references that one request may resolve.")
    embed_depth_max: int = Field(20, ge=0, le=50, description="Levels of embedded references in each other.")
    resolved_bytes_max: int = Field(
        4 * MIB,
        ge=1_000,
        le=64 * MIB,
        description="Data of a revision after its embedded references are resolved; 400 past it.",
    )

    def span_limits(self) -> SpanLimits:
        """The part that codecs obey."""
        return SpanLimits(
            record_bytes_max=self.record_bytes_max,
            span_bytes_max=self.span_bytes_max,
            nesting_depth_max=self.nesting_depth_max,
            past_ns_min=self.past_s_min * 1_000_000_000,
            ahead_ns_max=self.ahead_s_max * 1_000_000_000,
        )


class Settings(BaseSettings):
    """All settings of all processes."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True)

    api_host: Name = Field("127.0.0.1", description="Address the API listens on.")
    api_port: Port = Field(8080, description="Port of the API.")
    otlp_http_port: Port = Field(
        4318, description="Second port of the API, for OTLP over HTTP alone: where SDKs send by default. 0: off."
    )
    worker_host: Name = Field("127.0.0.1", description="Address of the worker's health and metrics.")
    worker_port: Port = Field(8081, description="Port of the worker's health and metrics.")
    kafka_port: Port = Field(9092, description="Port of the embedded broker.")
    data_dir: Directory = Field(Path(".clearspan"), description="State of the embedded stack.")
    auth: Literal["on", "off"] = Field(
        "on", description="off: everything is the default project; refuses any address but loopback."
    )
    admin_key: SecretStr = Field(SecretStr(""), description="Key of the /admin routes; empty: they answer 401.")
    default_project_id: UUID = Field(DEFAULT_PROJECT_ID, description="Project of spans that name none.")
    log_format: Literal["text", "json"] = Field("json", description="text for people, json for machines.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe message that is logged."
    )
    embedded_broker_bytes_max: int = Field(
        512 * MIB, ge=64 * MIB, description="Memory at which the embedded broker is drained and renewed, in bytes."
    )
    kafka: KafkaSettings = Field(default_factory=KafkaSettings)
    clickhouse: ClickHouseSettings = Field(default_factory=ClickHouseSettings)
    postgres: PostgresSettings = Field(default_factory=PostgresSettings)
    ingest: IngestSettings = Field(default_factory=IngestSettings)
    query: QuerySettings = Field(default_factory=QuerySettings)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    compute: ComputeSettings = Field(default_factory=ComputeSettings)


class IllegalSettings(Exception):
    """The environment holds a setting that is unknown or illegal. The message names it and says what is legal."""


def read_settings() -> Settings:
    """The settings of this process, from its environment. Raises ``IllegalSettings`` with one sentence a problem."""
    unknown = sorted(name for name in _given() if name.upper() not in setting_names())
    if unknown:
        sentences = [f"{name} is not a setting of Clearspan." for name in unknown]
        raise IllegalSettings(" ".join([*sentences, "`clearspan settings` lists them all."]))
    if unreadable := [name for name in _given() if not is_unicode(os.environ[name])]:
        raise IllegalSettings(" ".join(f"{name} is illegal: Input should be text in UTF-8." for name in unreadable))
    try:
        return Settings()
    except ValidationError as exc:
        raise IllegalSettings(" ".join(_sentence(error) for error in exc.errors())) from exc
    except SettingsError as exc:  # says which group, not which setting; only one of them all is JSON
        raise IllegalSettings(f"{_name(_JSON)} is illegal: Input should be a JSON object.") from exc


def _given() -> list[str]:
    """The variables of the environment that begin as settings do, in capitals or not: either sets one."""
    return [name for name in os.environ if name.upper().startswith(PREFIX)]


def is_unicode(text: str) -> bool:
    """Whether all its bytes could be decoded; those that could not are lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


@dataclass(frozen=True, slots=True)
class SettingLine:
    """One setting as people read it."""

    name: str
    default: str
    legal: str
    meaning: str


def describe_settings() -> list[SettingLine]:
    """Every setting with its default, what is legal and what it means, in the order of the model."""
    return [_line(path, info) for path, info in _fields(Settings)]


def setting_names() -> list[str]:
    """Every environment variable that is a setting, in the order of the model."""
    return [_name(path) for path, _info in _fields(Settings)]


def _fields(model: type[BaseModel], above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], FieldInfo]]:
    fields: list[tuple[tuple[str, ...], FieldInfo]] = []
    for name, info in model.model_fields.items():
        group = info.annotation
        if isinstance(group, type) and issubclass(group, _Group):
            fields += _fields(group, (*above, name))
        else:
            fields.append(((*above, name), info))
    return fields


def _name(path: Sequence[object]) -> str:
    return PREFIX + "__".join(str(part) for part in path).upper()


def _line(path: tuple[str, ...], info: FieldInfo) -> SettingLine:
    return SettingLine(_name(path), _default_text(info), _legal_text(info), info.description or "")


def _default_text(info: FieldInfo) -> str:
    default = info.get_default(call_default_factory=True)
    if default is None:
        return ""
    if isinstance(default, SecretStr):
        return default.get_secret_value()
    if isinstance(default, dict):
        return json.dumps({name: value.model_dump(mode="json", exclude_none=True) for name, value in default.items()})
    return str(default)


def _legal_text(info: FieldInfo) -> str:
    if get_origin(info.annotation) is Literal:
        return ", ".join(str(value) for value in get_args(info.annotation))
    signs = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))
    bounds = [f"{sign} {getattr(rule, name)}" for rule in info.metadata for name, sign in signs if hasattr(rule, name)]
    return ", ".join(bounds)


def _sentence(error: Mapping[str, object]) -> str:
    path = error["loc"] if isinstance(error["loc"], tuple) else ()
    if path[:2] != _JSON:
        return f"{_name(path)} is illegal: {error['msg']}."
    topic = "".join([f"{name!r}" for name in path[2:3]] + [f".{name}" for name in path[3:]])
    return f"{_name(_JSON)} is illegal: {topic}{': ' if topic else ''}{error['msg']}."
