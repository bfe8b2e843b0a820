"""Dead letters as rows of the table ``dead_letters`` (ADR 0004).

One is open until it is replayed or dropped: a later row with the same id says so, and holds no bytes any more. Every
statement sees one row for each id, so all processes agree about what is open.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pydantic import ConfigDict, TypeAdapter

from common.clickhouse.store import ColumnStore, Statement
from common.kafka.record import Header

DEAD_LETTERS_TABLE: Final = "dead_letters"
NOT_ONE_SPAN: Final = 2**32 - 1
"""The column ``span_index`` of a dead letter that is about more than one span; these are the last of their record."""

SortKey: TypeAlias = tuple[int, int, int, int, str]

_SUMMARY: Final = (
    "id, topic, partition, record_offset, span_index, code, reason, created_us, bytes_count, codes, project"
)
_SORT_KEY: Final = "created_us, partition, record_offset, span_index, id"
_SORT_KEY_TYPES: Final = ("Int64", "UInt32", "UInt64", "UInt32", "String")
_CODES: Final = TypeAdapter(dict[str, int])


class Envelope(NamedTuple):
    """Key and headers of the record to publish in a replay."""

    key: bytes | None
    headers: tuple[Header, ...]


_ENVELOPE: Final = TypeAdapter(Envelope, config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"))


class DeadLetter(NamedTuple):
    """One dead letter without its bytes.

    ``topic``, ``partition`` and ``offset`` are those of the original record. ``span_index`` is ``None`` if it is about
    more than one span; ``codes`` (spans by code) is set only if spans share it. ``created_us`` is when it was rejected.
    ``project`` is what the record's header names, else the project of its topic.
    """

    id: str
    topic: str
    partition: int
    offset: int
    span_index: int | None
    code: str
    reason: str
    created_us: int
    bytes_count: int
    codes: Mapping[str, int] | None = None
    project: str | None = None

    @property
    def sort_key(self) -> SortKey:
        """The order of rejection."""
        span_index = NOT_ONE_SPAN if self.span_index is None else self.span_index
        return self.created_us, self.partition, self.offset, span_index, self.id


class DeadLetterContent(NamedTuple):
    """What a replay publishes."""

    envelope: Envelope
    value: bytes


def dead_letter_id(partition_id: str, partition: int, offset: int, record_ms: int, span_index: int | None) -> str:
    """Return the id of a rejection: the same each time its record is delivered, such as ``0-17-5f2e9a60c3d41b7e``."""
    identity = f"{partition_id}/{offset}/{record_ms}/{'' if span_index is None else span_index}"
    return f"{partition}-{offset}-{blake2b(identity.encode(), digest_size=8).hexdigest()}"


@dataclass(frozen=True, slots=True)
class DeadLetterSelection:
    """Which of the open dead letters. Every member that is given must match.

    ``topics`` are those that are read: with ``is_replayable`` a dead letter must, or must not, be of them and have a
    value.
    """

    code: str | None = None
    topic: str | None = None
    project: str | None = None
    oldest_us: int | None = None
    newest_us: int | None = None
    is_replayable: bool | None = None
    topics: Collection[str] = ()


class DeadLetterTable:
    """The table in an engine. All methods raise the errors of ``ColumnStore``."""

    def __init__(self, store: ColumnStore, *, deadline_s: float) -> None:
        self._store = store
        self._deadline_s = deadline_s

    async def insert(self, dead_letters: Sequence[tuple[DeadLetter, DeadLetterContent]], /) -> None:
        """Return when these are durable. Calling it again with the same ones changes nothing."""
        envelopes = [_ENVELOPE.dump_json(content.envelope) for _, content in dead_letters]
        values = [content.value for _, content in dead_letters]
        await self._insert([dead_letter for dead_letter, _ in dead_letters], envelopes, values)

    async def resolve(self, dead_letters: Sequence[DeadLetter], /) -> None:
        """Note that these were replayed or dropped, and delete their bytes."""
        nothing = [b""] * len(dead_letters)
        await self._insert(dead_letters, nothing, nothing, is_resolved=True)

    async def delete_project(self, project: str) -> int:
        """Delete all rows of a project; return how many dead letters of it were open."""
        count = await self.count(DeadLetterSelection(project=project))
        async with self._store.shards() as shards:
            for store, suffix in shards:
                delete = Statement(
                    f"ALTER TABLE {DEAD_LETTERS_TABLE}{suffix} DELETE WHERE project = {{project:String}}",
                    {"project": project},
                    {"mutations_sync": 2},
                )
                await store.execute(delete, deadline_s=self._deadline_s)
        return count

    async def select(
        self, selection: DeadLetterSelection, *, limit: int, before: SortKey | None = None, oldest_first: bool = False
    ) -> list[DeadLetter]:
        """Return up to ``limit`` open ones, the newest first, or those rejected before a ``sort_key``."""
        where, parameters = _where(selection)
        if before is not None:
            columns = ", ".join(f"{{after_{n}:{kind}}}" for n, kind in enumerate(_SORT_KEY_TYPES))
            where += f" AND ({_SORT_KEY}) < ({columns})"
            parameters |= {f"after_{n}": part for n, part in enumerate(before)}
        direction = "ASC" if oldest_first else "DESC"
        order = ", ".join(f"{column} {direction}" for column in _SORT_KEY.split(", "))
        return await self._read(f"{where} ORDER BY {order} LIMIT {{limit:UInt32}}", {**parameters, "limit": limit})

    async def count(self, selection: DeadLetterSelection) -> int:
        """Return how many open ones match."""
        where, parameters = _where(selection)
        rows = await self._select("count() AS count", where, parameters)
        return int(rows["count"][0].as_py())

    async def find(self, dead_letter_id: str) -> DeadLetter | None:
        """Return the open one with this id."""
        rows = await self._read("NOT is_resolved AND id = {id:String}", {"id": dead_letter_id})
        return rows[0] if rows else None

    async def contents(self, dead_letter_ids: Collection[str]) -> dict[str, DeadLetterContent]:
        """Return what the open ones of these hold, by id."""
        where = "NOT is_resolved AND id IN {ids:Array(String)}"
        rows = await self._select("id, envelope, value", where, {"ids": [*dead_letter_ids]})
        return {
            row["id"].decode(): DeadLetterContent(_ENVELOPE.validate_json(row["envelope"]), row["value"])
            for row in rows.to_pylist()
        }

    async def shares_of(self, dead_letter_ids: Collection[str]) -> dict[str, int | None]:
        """Return which of these exist, resolved ones included, and how many spans share each; ``None``: it has no
        others.
        """
        if not dead_letter_ids:
            return {}
        rows = await self._select("id, codes", "id IN {ids:Array(String)}", {"ids": [*dead_letter_ids]})
        return {
            row["id"].decode(): sum(_CODES.validate_json(row["codes"]).values()) if row["codes"] else None
            for row in rows.to_pylist()
        }

    async def _read(self, where: str, parameters: Mapping[str, Any]) -> list[DeadLetter]:
        return [_dead_letter(row) for row in (await self._select(_SUMMARY, where, parameters)).to_pylist()]

    async def _select(self, columns: str, where: str, parameters: Mapping[str, Any]) -> pa.Table:
        sql = f"SELECT {columns} FROM {DEAD_LETTERS_TABLE} FINAL WHERE {where}"
        return await self._store.select(Statement(sql, parameters), deadline_s=self._deadline_s)

    async def _insert(
        self,
        dead_letters: Sequence[DeadLetter],
        envelopes: Sequence[bytes],
        values: Sequence[bytes],
        *,
        is_resolved: bool = False,
    ) -> None:
        columns = list(zip(*dead_letters, strict=True))
        rows = {
            "id": pa.array(columns[0], pa.string()),
            "is_resolved": pa.array([int(is_resolved)] * len(dead_letters), pa.uint8()),
            "topic": pa.array(columns[1], pa.string()),
            "partition": pa.array(columns[2], pa.uint32()),
            "record_offset": pa.array(columns[3], pa.uint64()),
            "span_index": pa.array([NOT_ONE_SPAN if index is None else index for index in columns[4]], pa.uint32()),
            "code": pa.array(columns[5], pa.string()),
            "reason": pa.array(map(_utf8, columns[6]), pa.binary()),
            "created_us": pa.array(columns[7], pa.int64()),
            "bytes_count": pa.array(columns[8], pa.uint64()),
            "codes": pa.array([_CODES.dump_json(dict(codes)) if codes else b"" for codes in columns[9]], pa.binary()),
            "project": pa.array([_utf8(project or "") for project in columns[10]], pa.binary()),
            "envelope": pa.array(envelopes, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
        # Neither rows that differ in their times, nor a row and its resolution, are the same insert.
        identity = repr([is_resolved, *((each.id, each.created_us) for each in dead_letters)]).encode()
        await self._store.insert(
            DEAD_LETTERS_TABLE,
            pa.table(rows),
            dedup_token=blake2b(identity, digest_size=16).hexdigest(),
            deadline_s=self._deadline_s,
        )


def _where(selection: DeadLetterSelection) -> tuple[str, dict[str, Any]]:
    conditions: dict[str, tuple[str, Any]] = {
        "code": ("code = {code:String}", selection.code),
        "topic": ("topic = {topic:String}", selection.topic),
        "project": ("project = {project:String}", selection.project),
        "oldest_us": ("created_us >= {oldest_us:Int64}", selection.oldest_us),
        "newest_us": ("created_us < {newest_us:Int64}", selection.newest_us),
    }
    given = {name: condition for name, condition in conditions.items() if condition[1] is not None}
    where = ["NOT is_resolved", *(sql for sql, _ in given.values())]
    parameters = {name: value for name, (_, value) in given.items()}
    if selection.is_replayable is not None:
        where.append("{is_replayable:UInt8} = (bytes_count > 0 AND topic IN {topics:Array(String)})")
        parameters |= {"is_replayable": int(selection.is_replayable), "topics": [*selection.topics]}
    return " AND ".join(where), parameters


def _dead_letter(row: Mapping[str, Any]) -> DeadLetter:
    return DeadLetter(
        id=row["id"].decode(),
        topic=row["topic"].decode(),
        partition=row["partition"],
        offset=row["record_offset"],
        span_index=None if row["span_index"] == NOT_ONE_SPAN else row["span_index"],
        code=row["code"].decode(),
        reason=row["reason"].decode(),
        created_us=row["created_us"],
        bytes_count=row["bytes_count"],
        codes=_CODES.validate_json(row["codes"]) if row["codes"] else None,
        project=row["project"].decode() or None,
    )


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
