"""Translate errors of the engine into ours: one table of codes for both engines.

The codes are those of ClickHouse's ``ErrorCodes.cpp``. The table is short on purpose. Only errors that depend on the
value in a row are ``RejectedByStore``: a mistake in our schema or SQL would reject every row, and must stop the
worker instead of dead-lettering a whole topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError, OperationalError

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
    225,  # NO_ZOOKEEPER
    242,  # TABLE_IS_READ_ONLY: a replica without its keeper
    243,  # NOT_ENOUGH_SPACE
    279,  # ALL_CONNECTION_TRIES_FAILED
    285,  # TOO_FEW_LIVE_REPLICAS
    286,  # UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
    319,  # UNKNOWN_STATUS_OF_INSERT
    497,  # ACCESS_DENIED: rights can be granted while we wait
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
OF_QUERY: Final = re.compile(r"Query memory limit exceeded|memory limit \(for query\) exceeded", re.IGNORECASE)
"""The limit of one query, as newer and older engines say it. Otherwise the whole process has no memory left, and is
busy."""

NOT_FROM_THE_ENGINE: Final = (OperationalError, DatabaseError)
"""What the driver raises, without a code, for a broken connection and for a response of a proxy."""

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
    if code in AWAY or (code is None and type(error) in NOT_FROM_THE_ENGINE):
        return Unavailable(text, public_message="ClickHouse is away.")
    if inserting and code in BAD_VALUES:
        return RejectedByStore(text)
    return InvalidStatement(text)
