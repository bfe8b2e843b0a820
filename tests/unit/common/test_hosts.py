"""The order in which several hosts are tried."""

from __future__ import annotations

import pytest

from common.hosts import HostOrder
from common.postgres.pool import connection_options, dsns_of
from common.settings import PostgresSettings


def test_host_that_works_is_used_until_it_fails() -> None:
    order = HostOrder(3)
    orders = [order.in_turn]
    order.fails(0)
    orders.append(order.in_turn)
    order.fails(0)  # reported late, by another statement
    orders.append(order.in_turn)
    order.works(2)
    orders.append(order.in_turn)
    order.fails(2)
    orders.append(order.in_turn)

    assert orders == [[0, 1, 2], [1, 2, 0], [1, 2, 0], [2, 0, 1], [0, 1, 2]]


@pytest.mark.parametrize(
    ("dsn", "dsns"),
    [
        ("postgresql://db/x", ["postgresql://db/x"]),
        (
            "postgresql://a:p%2Cw@one:1,[::1]:2/x?y=1,2",
            ["postgresql://a:p%2Cw@one:1/x?y=1,2", "postgresql://a:p%2Cw@[::1]:2/x?y=1,2"],
        ),
        ("postgresql://a:b,c@one/x", ["postgresql://a:b,c@one/x"]),
        ("postgresql://one,two", ["postgresql://one", "postgresql://two"]),
        ("postgresql://postgres:@/postgres?host=/run/a:b", ["postgresql://postgres:@/postgres?host=/run/a:b"]),
    ],
)
def test_each_host_has_its_connection_string(dsn: str, dsns: list[str]) -> None:
    assert dsns_of(dsn) == dsns


@pytest.mark.parametrize(
    ("dsn", "wanted"),
    [
        ("postgresql://one/x", None),
        ("postgresql://one,two/x", "read-write"),
        ("postgresql://one,two/x?target_session_attrs=any", None),
    ],
)
def test_one_of_several_hosts_must_take_writes(dsn: str, wanted: str | None) -> None:
    options = connection_options(PostgresSettings.model_validate({"dsn": dsn, "password": "S3CR3T"}))

    assert (options.get("target_session_attrs"), options["password"]) == (wanted, "S3CR3T")


@pytest.mark.parametrize(
    "members",
    [
        {"dsn": "postgresql://one/x?sslmode=require", "tls": {"check_hostname": "off"}},
        {"dsn": "postgresql://one/x?sslrootcert=/nowhere/ca.pem"},
    ],
)
def test_tls_of_postgres_that_cannot_work_is_refused(members: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"has options of TLS|sslrootcert in it: the file '/nowhere/ca.pem' cannot be"):
        PostgresSettings.model_validate(members)
