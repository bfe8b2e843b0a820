from __future__ import annotations

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError, ProgrammingError

from common.clickhouse.engines import AWAY, BAD_VALUES, BUSY, OUT_OF_BUDGET, UNMADE, translated
from common.errors import (
    DeadlineExceeded,
    InvalidStatement,
    NotMigrated,
    Overloaded,
    RejectedByStore,
    ServiceError,
    Unavailable,
)

UNKNOWN = 9_999


def translation(error: Exception, *, inserting: bool) -> ServiceError:
    with pytest.raises(ServiceError) as caught, translated(inserting=inserting):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


def meaning(error: Exception, *, inserting: bool) -> type[ServiceError]:
    return type(translation(error, inserting=inserting))


@pytest.mark.parametrize("code", sorted(OUT_OF_BUDGET | BUSY | AWAY | UNMADE))
def test_public_messages_contain_no_text_of_the_driver(code: int):
    """The text of the driver names the address."""
    found = translation(
        DatabaseError("Received ClickHouse exception (for url http://10.1.2.3:8123)", code=code), inserting=False
    )

    assert "10.1.2.3" not in found.public_message
    assert found.public_message.endswith(".")


@pytest.mark.parametrize(
    ("codes", "of_a_query", "of_an_insert"),
    [
        (OUT_OF_BUDGET, DeadlineExceeded, DeadlineExceeded),
        (BUSY, Overloaded, Overloaded),
        (AWAY, Unavailable, Unavailable),
        (UNMADE, NotMigrated, NotMigrated),
        (BAD_VALUES, InvalidStatement, RejectedByStore),
        ({UNKNOWN}, InvalidStatement, InvalidStatement),
    ],
)
def test_codes_have_the_same_meaning_on_both_engines(codes, of_a_query, of_an_insert):
    for code in codes:
        assert meaning(DatabaseError("text", code=code), inserting=False) is of_a_query
        assert meaning(DatabaseError("text", code=code), inserting=True) is of_an_insert


def test_too_slow_parsing_exceeds_the_budget():
    """The largest valid filters end so: the request is at fault, not Clearspan."""
    assert meaning(DatabaseError("text", code=718), inserting=False) is DeadlineExceeded


def test_codes_have_one_meaning():
    meanings = (OUT_OF_BUDGET, BUSY, UNMADE, AWAY, BAD_VALUES)
    assert len(frozenset[int]().union(*meanings)) == sum(map(len, meanings))


@pytest.mark.parametrize("code", [75, 76, 243, 586])
def test_full_disk_is_transient(code: int):
    """Without space, without inodes (76, as seen on a file system that had none left) or past a quota."""
    assert meaning(DatabaseError("text", code=code), inserting=True) is Unavailable


@pytest.mark.parametrize("inserting", [False, True])
def test_statement_sent_again_after_a_lost_connection_is_transient(*, inserting: bool):
    """216, as seen in a fault round: the driver repeats a statement whose response is lost while it still runs."""
    error = DatabaseError("Query with id = 2850 is already running. (QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING)", code=216)

    assert meaning(error, inserting=inserting) is Unavailable


@pytest.mark.parametrize("code", [16, 53, 70])
def test_errors_of_the_schema_are_not_rejections_of_rows(code: int):
    """No such column, types that do not fit: a mistake in the schema, not in a span."""
    assert meaning(DatabaseError("text", code=code), inserting=True) is InvalidStatement


def test_lost_connection_and_foreign_response_are_unavailable():
    assert meaning(OperationalError("Network Error"), inserting=True) is Unavailable
    assert meaning(DatabaseError("HTTP driver received HTTP status 502"), inserting=False) is Unavailable


def test_wrong_use_of_the_driver_is_a_bug():
    assert meaning(ProgrammingError("no such parameter"), inserting=False) is InvalidStatement


def test_other_errors_are_not_translated():
    with pytest.raises(KeyError), translated():
        raise KeyError("a")


def test_shard_that_ends_while_it_is_asked_is_unavailable():
    lost = "Attempt to read after eof: while receiving packet from 10.1.2.3:9000, local address: 10.1.2.4:42656"
    value = "Attempt to read after eof: while converting '' to Int64"

    assert meaning(DatabaseError(lost, code=32), inserting=True) is Unavailable
    assert meaning(DatabaseError(value, code=32), inserting=False) is InvalidStatement
