"""Where the rows of spans are kept: a storage policy of the server, and the age from which its last volume has them.

The engine moves parts, not rows: a part moves when its newest span has the age (ADR 0038). Nothing is rewritten, so
positions, cursors and versions stay as they are. All other tables are narrow and are read by every query; they stay
where the server keeps its tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from common.clickhouse.engines import SQL, text_literal
from common.clickhouse.store import ColumnStore, Statement
from common.setting_types import variable_of
from common.settings import ClickHouseSettings, InvalidSettings

DEADLINE_S: Final = 60.0
DAY_S: Final = 86_400

POLICY_VARIABLE: Final = variable_of(("clickhouse", "storage_policy"))
HOT_DAYS_VARIABLE: Final = variable_of(("clickhouse", "hot_days"))

LAST_TIME_S: Final = 2**32 - 1
"""The latest ``DateTime``, in 2106: a later one would begin again in 1970."""


@dataclass(frozen=True, slots=True)
class StoragePolicy:
    """A storage policy of the server: the disks of each volume, in the order in which volumes fill."""

    name: str
    volumes: Mapping[str, frozenset[str]]

    def has_all_of(self, other: StoragePolicy) -> bool:
        """Return whether it has every volume and disk of another one, which the engine requires of a replacement."""
        return all(disks <= self.volumes.get(name, frozenset()) for name, disks in other.volumes.items())


async def policy_of(store: ColumnStore, settings: ClickHouseSettings) -> StoragePolicy | None:
    """Return the storage policy that the settings name; ``None`` if they name none.

    Raises ``InvalidSettings`` if the server does not have it, or if it has no second volume for spans that are not hot,
    and the errors of ``ColumnStore``.
    """
    if not settings.storage_policy:
        return None
    policies = await _policies(store)
    policy = policies.get(settings.storage_policy)
    if policy is None:
        raise InvalidSettings(
            f"{POLICY_VARIABLE}: ClickHouse has no storage policy {settings.storage_policy!r}; it has"
            f" {', '.join(sorted(policies))}. Policies are part of its configuration (docs/cold-storage.md)."
        )
    if settings.hot_days and len(policy.volumes) == 1:
        raise InvalidSettings(
            f"{HOT_DAYS_VARIABLE}: the storage policy {policy.name!r} has one volume, {next(iter(policy.volumes))!r},"
            " so nothing can move; give it a second volume, or set 0."
        )
    return policy


async def storage_changes(store: ColumnStore, settings: ClickHouseSettings, policy: StoragePolicy) -> list[str]:
    """Return the statements that let a server keep its spans as the settings say; none if it does.

    Raises ``InvalidSettings`` if the policy cannot replace that of a table, and the errors of ``ColumnStore``.
    """
    tables = await _tables(store)
    if any(table["policy"] != policy.name for table in tables):
        policies = await _policies(store)
        for table in tables:
            _check_replacement(policies.get(table["policy"], policy), policy)
    return [sql for table in tables for sql in _changes(table, settings, policy)]


def _changes(table: Mapping[str, str], settings: ClickHouseSettings, policy: StoragePolicy) -> Sequence[str]:
    alter = f"ALTER TABLE {table['name']}"
    changes = []
    if table["policy"] != policy.name:
        changes.append(f"{alter} MODIFY SETTING storage_policy = '{policy.name}'")
    ttl = _ttl(settings.hot_days, list(policy.volumes)[-1])
    if settings.hot_days and f" TTL {ttl} SETTINGS" not in table["definition"]:
        # With the setting, old parts only get a file that says when they move; otherwise they would be written again.
        changes.append(f"{alter} MODIFY SETTING materialize_ttl_recalculate_only = 1")
        changes.append(f"{alter} MODIFY TTL {ttl}")
    if not settings.hot_days and " TTL " in table["definition"]:
        changes.append(f"{alter} REMOVE TTL")
    return changes


def _ttl(hot_days: float, volume: str) -> str:
    """Return the rule as the engine writes it, so that it can be compared."""
    seconds = round(hot_days * DAY_S)
    moment = f"toDateTime(least(intDiv(start_us, 1000000) + {seconds}, {LAST_TIME_S}))"
    return f"{moment} TO VOLUME {text_literal(volume)}"


def _check_replacement(old: StoragePolicy, new: StoragePolicy) -> None:
    if not new.has_all_of(old):
        volumes = "; ".join(f"volume {name!r} with {', '.join(sorted(disks))}" for name, disks in old.volumes.items())
        raise InvalidSettings(
            f"{POLICY_VARIABLE}: the spans are kept by the policy {old.name!r}, and {new.name!r} can replace it only"
            f" with all of its volumes and disks: {volumes}."
        )


async def _policies(store: ColumnStore) -> dict[str, StoragePolicy]:
    volumes: dict[str, dict[str, frozenset[str]]] = {}
    for row in await _rows(store, SQL["storage_policies"]):
        disks = frozenset(str(disk, "utf-8") for disk in row["disks"])
        volumes.setdefault(str(row["policy"], "utf-8"), {})[str(row["volume"], "utf-8")] = disks
    return {name: StoragePolicy(name, of_policy) for name, of_policy in volumes.items()}


async def _tables(store: ColumnStore) -> list[dict[str, str]]:
    """Return name, policy and definition of each table of spans."""
    rows = await _rows(store, SQL["tables_of_spans"])
    return [{name: str(value, "utf-8") for name, value in row.items()} for row in rows]


async def _rows(store: ColumnStore, sql: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await store.select(Statement(sql), deadline_s=DEADLINE_S)).to_pylist()
    return rows
