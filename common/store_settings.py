"""The settings of the two databases: ClickHouse for spans, Postgres for everything else."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from urllib.parse import parse_qs

from pydantic import AfterValidator, Field, SecretStr

from common.limits import MIB
from common.setting_types import Group, Host, Port

_SSL_MODES: Final = frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"})


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


class ClickHouseSettings(Group):
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


class PostgresSettings(Group):
    """Projects, keys, applications and saved queries."""

    dsn: Annotated[SecretStr, AfterValidator(_postgres_dsn)] = SecretStr(
        "postgresql://clearspan@127.0.0.1:5432/clearspan"
    )
    """Connection string."""
    password: SecretStr = SecretStr("")
    """Password, with any characters; empty: that in the connection string, else that of PGPASSWORD."""
    connections_max: int = Field(8, ge=1, le=100)
    """Connections in the pool."""
    timeout_s: float = Field(5.0, gt=0, le=60)
    """Deadline of one statement, in seconds."""
