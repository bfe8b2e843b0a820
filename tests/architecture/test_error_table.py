"""The table of errors in ARCHITECTURE is true: every error, its HTTP status, and whether it is transient."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

import pytest

import common.kafka.record
import common.postgres.pool
import query_api.compute
import query_api.request.errors
from common.errors import Retryable, ServiceError
from query_api.request.errors import headers_of, status_of

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("common.", "ingest.", "query_api.", "clearspan.")
GROUPS: Final = {Retryable}
"""Base classes that are never raised themselves."""


class Row(NamedTuple):
    """One line of the table; ``names`` are the names of error classes."""

    names: list[str]
    error: str
    http: str
    worker: str


def _rows() -> list[Row]:
    section = (ROOT / "ARCHITECTURE.md").read_text().split("\n## Errors\n")[1].split("\n## ")[0]
    lines = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", section, re.MULTILINE)[1:]
    return [Row(re.findall(r"`(\w+)`", error), error, http, worker) for error, http, worker in lines]


def _below(error: type[ServiceError]) -> set[type[ServiceError]]:
    children = {child for child in error.__subclasses__() if child.__module__.startswith(PACKAGES)}
    return children.union(*map(_below, children))


ERRORS: Final = {each.__name__: each for each in _below(ServiceError) - GROUPS}
ROWS: Final = [row for row in _rows() if row.names]


def _an(error: type[ServiceError]) -> ServiceError:
    """Return an instance without calling the constructor: constructors differ between classes."""
    made = error.__new__(error)
    vars(made).update(retry_after_s=1.0, allowed=["GET"], detail="", told="")
    return made


def test_every_error_is_in_one_row() -> None:
    # Import all that defines errors, so that the tree is whole.
    assert {common.kafka.record, common.postgres.pool, query_api.compute, query_api.request.errors}
    assert sorted(name for row in ROWS for name in row.names) == sorted(ERRORS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.names[0])
def test_a_row_has_the_status_of_its_errors(row: Row) -> None:
    statuses = [int(status) for status in re.findall(r"\b[45]\d\d\b", row.http)]
    if not statuses:
        assert (row.http, row.names) == ("–", ["LostPartition", "TopicReplaced"])  # of a consumer
        return

    of_names = [status_of(_an(ERRORS[name])) for name in row.names]
    assert of_names == (statuses * len(row.names) if len(statuses) == 1 else statuses)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.names[0])
def test_a_row_says_which_errors_are_transient_and_which_headers_they_have(row: Row) -> None:
    errors = [_an(ERRORS[name]) for name in row.names]

    assert {error.transient for error in errors} == {"transient" in row.error}
    assert [f"`{name}`" in row.http for name in ("Retry-After", "Allow")] == [
        any(name in headers_of(error) for error in errors) for name in ("Retry-After", "Allow")
    ]
