"""What both engines do alike: the statements of ``ColumnStore`` with their settings, results and errors.

Errors are translated by one table of codes, those of ClickHouse's ``ErrorCodes.cpp``. The table is short on purpose.
Only errors that depend on the value in a row are ``RejectedByStore``: a mistake in our schema or SQL would reject every
row, and must stop the worker instead of dead-lettering a whole topic.

Values are literals in the SQL because a server takes 128 KiB of a parameter or of a form's field
(``http_max_field_value_size``), less than the ids of a page of large traces, and the engine analyses each parameter as
the cast of a text, 0.15 ms. No literal can end early: of a text, every byte that is not a letter, a digit or one of
``_-`` and space is written as ``\\xHH``. The SQL is read once, so a value that looks like a placeholder stays a value.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID

import orjson
import pyarrow as pa
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError, OperationalError

from common.clickhouse.select import on_shard, run_by_shards
from common.clickhouse.store import Statement
from common.errors import (
    DeadlineExceeded,
    InvalidStatement,
    NotMigrated,
    OutOfMemory,
    Overloaded,
    RejectedByStore,
    ServiceError,
    Unavailable,
)
from common.limits import MIB
from common.named_sql import load_named_sql
from common.settings import ClickHouseSettings

Result = TypeVar("Result")
Reader: TypeAlias = Callable[[bytes], Result]
Settings: TypeAlias = Mapping[str, str | int | float]

SQL: Final = load_named_sql(Path(__file__).with_name("queries.sql"))
"""The fixed statements of this package by name."""

DEADLINE_S_MIN: Final = 0.001
"""Zero would mean 'no limit' to the engine."""

ALWAYS: Final[Settings] = {
    "output_format_arrow_string_as_string": 0,  # bytes: what is stored need not be UTF-8
    # By default the fourth statement with the same text waits 13 ms for a compiler; no scan is faster for it (ADR
    # 0003).
    "compile_expressions": 0,
    # By default each condition of a long AND is planned several times: 256 of them take three times as long (ADR
    # 0012).
    "query_plan_merge_filters": 0,
    "output_format_json_escape_forward_slashes": 0,  # of `attributes_json`, which responses contain as it is
    "precise_float_parsing": 1,  # without it a text parsed as a double is often off in the last digit
    "query_plan_optimize_lazy_materialization": 1,
    # A filter at its limits (256 conditions, six numbers in each path) is a statement of megabytes; the defaults are
    # 256 KiB and 50,000 nodes. What bounds it is the filter's own limits.
    "max_query_size": 64 * MIB,
    "max_ast_elements": 5_000_000,
    "max_expanded_ast_elements": 5_000_000,
    "timeout_overflow_mode": "throw",
}
"""The settings of every statement but inserts."""


OF_SHARDS: Final[Settings] = {
    "distributed_foreground_insert": 1,  # by default an insert returns when one server has it in a queue
    "parallel_distributed_insert_select": 0,  # the engine does not rename the tables of subqueries then
    "skip_unavailable_shards": 0,  # a profile of the server may have turned it on: answers would lack spans
    "optimize_skip_unused_shards": 0,
}
"""The settings of every statement if tables are divided among shards (ADR 0037)."""


PRIORITY_OF_INSERTS: Final[Settings] = {"priority": 1}
PRIORITY_OF_STATEMENTS: Final[Settings] = {"priority": 2}
"""Statements pause while an insert runs, up to a second each time that they have read something (ADR 0044)."""


class Engine(ABC):
    """The statements of ``ColumnStore``; a subclass runs them with its driver."""

    def __init__(self, settings: ClickHouseSettings) -> None:
        self._memory_bytes_max = settings.memory_bytes_max
        self._insert_memory_bytes_max = settings.insert_memory_bytes_max
        self._consistency = _consistency(settings)
        queries_give_way = settings.gives_way == "queries"
        self._of_inserts = PRIORITY_OF_INSERTS if queries_give_way else {}
        self._of_statements = PRIORITY_OF_STATEMENTS if queries_give_way else {}
        self._cluster = settings.cluster if settings.sharding == "on" else ""
        self._database = settings.database
        self._has_whole_traces = len(settings.epochs) <= 1

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        """Insert columns by name; see ``ColumnStore``."""
        settings: dict[str, str | int | float] = {
            "insert_deduplication_token": dedup_token,
            # Without it a repeated block would be dropped from the table and enter the tables of its views again.
            "deduplicate_blocks_in_dependent_materialized_views": 1,
            "insert_deduplicate": 1,  # a profile of the server may have turned it off
            "async_insert": 0,  # on by default since 26: it returns for a batch that contains rows of other inserts
            "max_partitions_per_insert_block": 0,  # a batch may hold spans of any age
            "input_format_null_as_default": 0,  # a null where none is allowed is a bug, not an empty text
            **self._consistency,
            **self._of_inserts,
            **_bounds(deadline_s, self._insert_memory_bytes_max),
        }
        if "insert_quorum" in settings:
            settings["insert_quorum_timeout"] = round(deadline_s * 1000)  # by default ten minutes
        with translated(inserting=True):
            await self._insert(table, rows, settings, deadline_s=deadline_s)

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        """Return the result as Arrow columns; see ``ColumnStore``."""
        bounded = self._bounded(statement, deadline_s, self._memory_bytes_max)
        with translated():
            return await self._query(bounded, "ArrowStream", _table_of, deadline_s=deadline_s)

    async def rows_read(self, statement: Statement, /, *, deadline_s: float) -> int:
        """Return how many rows the engine reads for a statement; see ``ColumnStore``.

        Runs a ``SELECT`` that computes every column of the statement and returns a number. Caches that an earlier run
        has filled are ignored. The format ends with the engine's statistics: neither driver returns the counters that
        come with a result in Arrow.
        """
        counted = f"(\n{statement.sql}\nSETTINGS use_query_condition_cache = 0\n)"
        reading_only = replace(statement, sql=f"SELECT count() FROM {counted} WHERE NOT ignore(*)")
        bounded = self._bounded(reading_only, deadline_s, self._memory_bytes_max)
        with translated():
            return await self._query(bounded, "JSONCompact", _rows_read, deadline_s=deadline_s)

    async def execute(self, statement: Statement, /, *, deadline_s: float) -> None:
        """Run a statement without a result; see ``ColumnStore``."""
        bounded = self._bounded(statement, deadline_s, self._insert_memory_bytes_max)
        with translated():
            await self._command(bounded, deadline_s=deadline_s)

    def _bounded(self, statement: Statement, deadline_s: float, memory_bytes_max: int) -> Statement:
        settings, sql = {**self._consistency, **self._of_statements, **statement.settings}, statement.sql
        if self._cluster and statement.reads == "all" and self._has_whole_traces:
            sql = run_by_shards(sql, self._database, self._cluster)
        elif self._cluster and statement.reads != "all":
            sql = on_shard(sql, self._database)
            sql = f"SELECT * FROM cluster('{self._cluster}', view({sql}))" if statement.reads == "each shard" else sql
        consistent = replace(statement, sql=sql, settings=settings)
        return _bounded(consistent, deadline_s, memory_bytes_max)

    @abstractmethod
    async def _insert(self, table: str, rows: pa.Table, settings: Settings, *, deadline_s: float) -> None: ...

    @abstractmethod
    async def _query(self, statement: Statement, kind: str, read: Reader[Result], *, deadline_s: float) -> Result:
        """Return what ``read`` makes of the result in the format ``kind``."""

    @abstractmethod
    async def _command(self, statement: Statement, *, deadline_s: float) -> None: ...


def _consistency(settings: ClickHouseSettings) -> Settings:
    """Return what the engine is asked for beyond what it is set to; nothing by default."""
    asked: dict[str, str | int | float] = {}
    if settings.sharding == "on":
        asked |= OF_SHARDS
        # Only while there is one epoch are all spans of a trace on one shard.
        asked["distributed_product_mode"] = "local" if len(settings.epochs) <= 1 else "global"
    if settings.insert_quorum:
        asked["insert_quorum"] = settings.insert_quorum
        asked["insert_quorum_parallel"] = int(settings.insert_quorum_parallel == "on")
    if settings.select_sequential_consistency == "on":
        asked["select_sequential_consistency"] = 1
    return asked


def _bounded(statement: Statement, deadline_s: float, memory_bytes_max: int) -> Statement:
    """Return the statement with all its settings, among them the bounds of time and memory that the engine enforces."""
    return replace(statement, settings={**ALWAYS, **statement.settings, **_bounds(deadline_s, memory_bytes_max)})


def _bounds(deadline_s: float, memory_bytes_max: int) -> Settings:
    return {
        "max_execution_time": round(max(deadline_s, DEADLINE_S_MIN), 3),
        "timeout_overflow_mode": "throw",
        "max_memory_usage": memory_bytes_max,
    }


def _rows_read(result: bytes) -> int:
    return int(orjson.loads(result)["statistics"]["rows_read"])


def _table_of(arrow_stream: bytes) -> pa.Table:
    """Return the result as a table, each column in one piece.

    The engine makes a block of the rows that are stored together: 50 rows may come in 40 blocks, and reading 30
    columns costs for each.
    """
    return pa.ipc.open_stream(arrow_stream).read_all().combine_chunks()


OUT_OF_BUDGET: Final = frozenset({
    158,  # TOO_MANY_ROWS
    159,  # TIMEOUT_EXCEEDED
    160,  # TOO_SLOW
    307,  # TOO_MANY_BYTES
    396,  # TOO_MANY_ROWS_OR_BYTES
    718,  # TOO_SLOW_PARSING: a filter that is at all its limits
})  # fmt: skip

BUSY: Final = frozenset({
    173,  # CANNOT_ALLOCATE_MEMORY
    201,  # QUOTA_EXCEEDED
    202,  # TOO_MANY_SIMULTANEOUS_QUERIES
    241,  # MEMORY_LIMIT_EXCEEDED
    252,  # TOO_MANY_PARTS
    394,  # QUERY_WAS_CANCELLED: by an operator
    439,  # CANNOT_SCHEDULE_TASK
    745,  # SERVER_OVERLOADED
})  # fmt: skip

AWAY: Final = frozenset({
    75,  # CANNOT_WRITE_TO_FILE_DESCRIPTOR: like 76
    76,  # CANNOT_OPEN_FILE: no inodes left, quota used up, too many open files
    198,  # DNS_ERROR
    209,  # SOCKET_TIMEOUT
    210,  # NETWORK_ERROR
    216,  # QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING: the connection was lost, and the driver sent the statement again
    225,  # NO_ZOOKEEPER
    242,  # TABLE_IS_READ_ONLY: a replica without its keeper
    243,  # NOT_ENOUGH_SPACE
    279,  # ALL_CONNECTION_TRIES_FAILED
    285,  # TOO_FEW_LIVE_REPLICAS
    286,  # UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
    289,  # REPLICA_IS_NOT_IN_QUORUM
    319,  # UNKNOWN_STATUS_OF_INSERT
    497,  # ACCESS_DENIED: rights can be granted while we wait
    499,  # S3_ERROR: the object storage of old spans
    516,  # AUTHENTICATION_FAILED
    586,  # CANNOT_CREATE_FILE: like 76
    999,  # KEEPER_EXCEPTION
})  # fmt: skip

UNMADE: Final = frozenset({
    60,  # UNKNOWN_TABLE
    81,  # UNKNOWN_DATABASE
})  # fmt: skip

BAD_VALUES: Final = frozenset({
    6,  # CANNOT_PARSE_TEXT
    27,  # CANNOT_PARSE_INPUT_ASSERTION_FAILED
    69,  # ARGUMENT_OUT_OF_BOUND
    72,  # CANNOT_PARSE_NUMBER
    117,  # INCORRECT_DATA
    128,  # TOO_LARGE_ARRAY_SIZE
    131,  # TOO_LARGE_STRING_SIZE
    321,  # VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
    349,  # CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
    376,  # CANNOT_PARSE_UUID
    469,  # VIOLATED_CONSTRAINT
})  # fmt: skip

MEMORY_LIMIT_EXCEEDED: Final = 241
OF_QUERY: Final = re.compile(r"Query memory limit exceeded", re.IGNORECASE)
"""The message when one query reached its memory limit. With any other message the whole process is out of memory, which
counts as busy."""

ATTEMPT_TO_READ_AFTER_EOF: Final = 32
OF_SHARD: Final = re.compile("while receiving packet from")
"""The message when a shard ended while it was asked. Any other is about a value that ends too early."""

NOT_FROM_THE_ENGINE: Final = (OperationalError, DatabaseError)
"""What the driver raises, without a code, for a broken connection and for a response of a proxy."""

AUTHENTICATION_FAILED: Final = 516
AUTHENTICATION_HINT: Final = " See CLEARSPAN_CLICKHOUSE__USERNAME and CLEARSPAN_CLICKHOUSE__PASSWORD."
UNAVAILABLE: Final = "ClickHouse is unavailable."
"""What clients see of a failed connection."""

RETRY_AFTER_BUSY_S: Final = 2.0

OUT_OF_MEMORY: Final = (
    "The query needs more memory than one query may use (CLEARSPAN_CLICKHOUSE__MEMORY_BYTES_MAX):"
    " narrow its window or its filter, or group by less."
)


@contextmanager
def translated(*, inserting: bool = False) -> Iterator[None]:
    """Raise our errors in place of the driver's. ``inserting`` says whether the values of rows can be the cause."""
    try:
        yield
    except ClickHouseError as exc:
        raise _translation(exc, inserting=inserting) from exc


def is_away(error: Exception) -> bool:
    """Return whether the engine was not available, which another replica may be."""
    return isinstance(error, ClickHouseError) and type(_translation(error, inserting=False)) is Unavailable


def _translation(error: ClickHouseError, *, inserting: bool) -> ServiceError:
    code: int | None = getattr(error, "code", None)
    text = str(error)
    if code in OUT_OF_BUDGET:
        return DeadlineExceeded(text, public_message="The query did not end within its budget.")
    if code == MEMORY_LIMIT_EXCEEDED and OF_QUERY.search(text) and not inserting:
        return OutOfMemory(text, public_message=OUT_OF_MEMORY)
    if code in BUSY:
        return Overloaded(text, public_message="ClickHouse is busy.", retry_after_s=RETRY_AFTER_BUSY_S)
    if code in UNMADE:
        return NotMigrated("ClickHouse")
    if _comes_from_away(code, error):
        hint = AUTHENTICATION_HINT if code == AUTHENTICATION_FAILED else ""
        return Unavailable(f"{text}{hint}", public_message=UNAVAILABLE)
    if inserting and code in BAD_VALUES:
        return RejectedByStore(text)
    return InvalidStatement(text)


def _comes_from_away(code: int | None, error: ClickHouseError) -> bool:
    if code == ATTEMPT_TO_READ_AFTER_EOF:
        return OF_SHARD.search(str(error)) is not None
    return code in AWAY or (code is None and type(error) in NOT_FROM_THE_ENGINE)


_PLACEHOLDER: Final = re.compile(r"\{(\w+):([^{}]+)\}")
_ESCAPED: Final = re.compile(rb"[^0-9A-Za-z_ -]")
"""The bytes of a text that are written as ``\\xHH``, so that no text ends its literal (ADR 0035)."""


def with_literals(statement: Statement) -> str:
    """Return the SQL with a literal for each ``{name:Type}``.

    Raises ``InvalidStatement`` for a name without a value, and for a value that SQL has no literal for.
    """

    def literal(placeholder: re.Match[str]) -> str:
        name, kind = placeholder.groups()
        if name not in statement.parameters:
            raise InvalidStatement(f"The statement has no value for {placeholder[0]}.")
        return _literal(statement.parameters[name], kind)

    return _PLACEHOLDER.sub(literal, statement.sql)


def _literal(value: Any, kind: str) -> str:
    match value:
        case bytes():  # often the ids of a page: twice their size in digits, instead of four times
            return f"unhex('{value.hex()}')"
        case str() if kind == "String":
            return text_literal(value)
        case str():
            return f"CAST({text_literal(value)}, '{kind}')"
        case int():
            return f"CAST({int(value)}, '{kind}')"
        case float() | UUID():
            return f"CAST('{value}', '{kind}')"
        case list() | tuple():
            return f"CAST({_array(value)}, '{kind}')"
        case _:
            raise InvalidStatement(f"SQL has no literal for a value of type {type(value).__name__}.")


def _array(values: list[Any] | tuple[Any, ...]) -> str:
    """Return an array of numbers or of texts as one literal: indexes are not used for the result of a function."""
    return f"[{','.join(map(_element, values))}]"


def _element(value: Any) -> str:
    match value:
        case str() | UUID():
            return text_literal(str(value))
        case int():
            return str(int(value))
        case float():
            return repr(value)
        case _:
            raise InvalidStatement(f"SQL has no literal for an array of {type(value).__name__}.")


def text_literal(value: str) -> str:
    """Return a text as a literal of SQL that cannot end early."""
    escaped = _ESCAPED.sub(lambda byte: b"\\x%02x" % ord(byte[0]), value.encode())
    return f"'{escaped.decode()}'"
