"""The settings of the two databases: ClickHouse for spans, Postgres for everything else."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import parse_qs

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from common.limits import MIB
from common.setting_types import Group, Hosts, Port
from common.times import parse_time_ns
from common.tls import TlsSettings

_SSL_MODES: Final = frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"})

_SSL_FILES: Final = frozenset({"sslcert", "sslkey", "sslrootcert", "sslcrl"})


def _postgres_dsn(dsn: SecretStr) -> SecretStr:
    """Check a connection string. The messages quote nothing of it: a password may be anywhere in it."""
    scheme, colon, rest = dsn.get_secret_value().partition("://")
    if not colon or scheme not in ("postgresql", "postgres"):
        raise ValueError("a connection string begins with postgresql:// or postgres://")
    hosts = rest.partition("?")[0].partition("/")[0].rpartition("@")[2].split(",")
    ports = [host.rpartition("]")[2].partition(":")[2] or "0" for host in hosts]
    if any(not port.isdecimal() or int(port) > 65_535 for port in ports):
        raise ValueError("a port in it is not a number from 0 to 65535; percent-encode / @ : and ? in a password")
    options = parse_qs(rest.partition("?")[2])
    modes = options.get("sslmode", [])
    if not _SSL_MODES.issuperset(modes):  # otherwise the process would wait as if the database were down
        raise ValueError(f"sslmode in it is not one of {', '.join(sorted(_SSL_MODES))}")
    for name in _SSL_FILES.intersection(options):
        _check_readable(name, options[name][-1])
    return dsn


def _check_readable(name: str, path: str) -> None:
    try:
        Path(path).read_bytes()
    except OSError as exc:
        raise ValueError(f"{name} in it: the file {path!r} cannot be read: {exc.strerror}") from None


FIRST_US: Final = -(2**63)
"""Before every span."""


class ShardEpoch(NamedTuple):
    """A number of shards, and the start of the spans that are divided among them."""

    shards_count: int
    since_us: int


def _shard_epochs(text: str) -> list[ShardEpoch]:
    """Return the epochs in a setting. Raises ``ValueError``."""
    if not text:
        return []
    first, *others = text.split(",")
    epochs = [ShardEpoch(int(first), FIRST_US)]
    for other in others:
        count, _, since = other.strip().partition("@")
        epochs.append(ShardEpoch(int(count), parse_time_ns(since) // 1_000))
    if any(epoch.shards_count < 1 for epoch in epochs) or epochs != sorted(set(epochs), key=attrgetter("since_us")):
        raise ValueError("epochs follow each other")
    return epochs


class ClickHouseSettings(Group):
    """The engine."""

    interface: Literal["http", "https", "chdb"] = "http"
    """http or https: a server; chdb: inside the process."""
    host: Hosts = "127.0.0.1"
    """Host of the server, or the hosts of several replicas, comma separated: the next one is used when one fails."""
    port: Port = 8123
    """HTTP port of the servers."""
    tls: TlsSettings = Field(default_factory=TlsSettings)
    username: str = "default"
    """User of the server."""
    password: SecretStr = SecretStr("")
    """Password of the server; empty with a client certificate: the certificate proves who the user is."""
    database: str = Field("clearspan", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Database; `clearspan migrate` creates it."""
    cluster: str = Field("", pattern=r"^[A-Za-z0-9_.-]*$")
    """Name of the cluster in `system.clusters`; empty: one server."""
    replication: Literal["on", "off"] = "on"
    """off: each shard of the cluster is one server, without replicas and Keeper."""
    sharding: Literal["on", "off"] = Field("off", validate_default=True)
    """on: spans are divided among the shards of the cluster."""
    shard_epochs: str = ""
    """How many shards there were and are, such as `2, 3@2027-01-01T00:00:00Z`; empty: as many as there are."""
    storage_policy: str = Field("", pattern=r"^[A-Za-z0-9_.-]*$")
    """Storage policy of the server for the rows of spans, set by `clearspan migrate`; empty: as the server is set."""
    hot_days: float = Field(0.0, ge=0, le=36_500)
    """Age of a span in days from which its rows belong on the last volume of that policy, such as object storage; 0:
    age moves nothing."""
    insert_quorum: str = Field("", validate_default=True)
    """Replicas that must have an insert before it counts as stored; `auto`: a majority; empty: as the server is set."""
    insert_quorum_parallel: Literal["on", "off"] = "on"
    """off: inserts with a quorum follow each other, which `select_sequential_consistency` needs."""
    select_sequential_consistency: Literal["on", "off"] = Field("off", validate_default=True)
    """on: a replica that lacks an insert of the quorum answers no query."""
    connections: int = Field(4, ge=1, le=64)
    """Connections for queries, which run at the same time."""
    gives_way: Literal["neither", "ingest", "queries"] = "neither"
    """What gives way while the machine is too busy for both. ingest: batches get up to four times as old and are
    flushed in at most a tenth of the time, and decoding has a low priority. queries: statements pause while a batch is
    inserted. neither: they share."""
    insert_timeout_s: float = Field(60.0, gt=0, le=600)
    """Deadline of one insert, in seconds."""
    memory_bytes_max: int = Field(1_024 * MIB, ge=64 * MIB, le=1_024 * 1_024 * MIB)
    """Memory of one query in the engine, in bytes; a query that needs more gets 504."""
    insert_memory_bytes_max: int = Field(4_096 * MIB, ge=64 * MIB, le=1_024 * 1_024 * MIB)
    """Memory of one insert or migration in the engine, in bytes; should be several times that of a batch."""

    @property
    def hosts(self) -> list[str]:
        """The hosts, in their order."""
        return [host.strip() for host in self.host.split(",")]

    @property
    def epochs(self) -> list[ShardEpoch]:
        """How many shards there are since when, the first one since ever; empty if that never changed."""
        return _shard_epochs(self.shard_epochs)

    @field_validator("sharding")
    @classmethod
    def _has_a_cluster(cls, value: str, info: ValidationInfo) -> str:
        is_replicated = info.data.get("replication") == "on"
        if value == "on" and not info.data.get("cluster"):
            raise PydanticCustomError("sharding", "Input should be off unless CLEARSPAN_CLICKHOUSE__CLUSTER is set")
        if value == "off" and info.data.get("cluster") and not is_replicated:
            sentence = "Input should be on if CLEARSPAN_CLICKHOUSE__CLUSTER is set and REPLICATION is off"
            raise PydanticCustomError("sharding", sentence)
        return value

    @field_validator("shard_epochs")
    @classmethod
    def _are_epochs(cls, value: str) -> str:
        try:
            _shard_epochs(value)
        except ValueError as exc:
            sentence = "Input should be counts of shards, each after the first with @ and a later time, comma separated"
            raise PydanticCustomError("epochs", sentence) from exc
        return value

    @field_validator("hot_days")
    @classmethod
    def _has_volumes(cls, days: float, info: ValidationInfo) -> float:
        if days and not info.data.get("storage_policy"):
            sentence = "Input has no effect unless CLEARSPAN_CLICKHOUSE__STORAGE_POLICY names a policy of the server"
            raise PydanticCustomError("storage", sentence)
        return days

    @field_validator("insert_quorum")
    @classmethod
    def _is_a_quorum(cls, value: str, info: ValidationInfo) -> str:
        if re.fullmatch(r"(auto|[1-9][0-9]?)?", value, re.ASCII) is None:
            raise PydanticCustomError("quorum", "Input should be auto, a number from 1 to 99, or empty")
        if value in ("", "1") and info.data.get("sharding") == "on" and info.data.get("replication") == "on":
            sentence = "Input should be auto or at least 2 if SHARDING is on: queries read any replica of a shard"
            raise PydanticCustomError("quorum", sentence)
        return value

    @field_validator("tls")
    @classmethod
    def _have_an_effect(cls, tls: TlsSettings, info: ValidationInfo) -> TlsSettings:
        if tls.is_set and info.data.get("interface") != "https":
            raise PydanticCustomError("tls", "Input has no effect unless CLEARSPAN_CLICKHOUSE__INTERFACE is https")
        return tls

    @field_validator("select_sequential_consistency")
    @classmethod
    def _has_a_sequence(cls, value: str, info: ValidationInfo) -> str:
        quorum, parallel = info.data.get("insert_quorum"), info.data.get("insert_quorum_parallel")
        if value == "on" and (quorum in ("", "1") or parallel != "off"):
            sentence = (
                "Input should be off unless INSERT_QUORUM is at least 2 or auto, and INSERT_QUORUM_PARALLEL is off"
            )
            raise PydanticCustomError("consistency", sentence)
        return value


class PostgresSettings(Group):
    """Projects, keys, applications and saved queries."""

    dsn: Annotated[SecretStr, AfterValidator(_postgres_dsn)] = SecretStr(
        "postgresql://clearspan@127.0.0.1:5432/clearspan"
    )
    """Connection string; with several hosts, comma separated, the first that can be written to is used."""
    password: SecretStr = SecretStr("")
    """Password, with any characters; empty: that in the connection string, else that of PGPASSWORD."""
    tls: TlsSettings = Field(default_factory=TlsSettings)
    connections_max: int = Field(8, ge=1, le=100)
    """Connections in the pool."""
    timeout_s: float = Field(5.0, gt=0, le=60)
    """Deadline of one statement, in seconds."""

    @field_validator("tls")
    @classmethod
    def _set_once(cls, tls: TlsSettings, info: ValidationInfo) -> TlsSettings:
        dsn = info.data.get("dsn")
        if tls.is_set and dsn is not None and "ssl" in dsn.get_secret_value().partition("?")[2]:
            raise PydanticCustomError("tls", "Input should not be set if the connection string has options of TLS")
        return tls
