"""Hashes: the vectors of the reference (§3.7), and what they leave out."""

from typing import Any

import pytest

from common.ids import parse_span_id, parse_trace_id
from common.span import Link
from ingest.references import hashes_of

APPLICATION = {"id": "019d952f-5945-71b1-b8cb-d6d8e675c18d", "slug": "app", "attributes": {"key": "application"}}
APPLICATION_REVISION = {"version": "3", "attributes": {"key": "application_revision"}}


def link(attributes: dict[str, Any]) -> Link:
    return Link(parse_trace_id("a0000001000000000000000000000000"), parse_span_id("1111111111111111"), attributes)


def indirect(hash_id: str) -> list[dict[str, Any]]:
    return [{"id": hash_id, "attributes": {"key": "indirect"}}]


def test_hash_of_references_equals_the_vector() -> None:
    hashes = hashes_of([APPLICATION, APPLICATION_REVISION], ())

    assert hashes == indirect("d3c8a323-8abe-92a5-d1d4-bb89e23f10ed")


def test_hash_of_links_equals_the_vector() -> None:
    hashes = hashes_of([], [link({"key": "invocation"})])

    assert hashes == indirect("8480856d-1ace-ffa0-0314-1af76cff6863")


def test_hash_of_slugs_equals_the_vector() -> None:
    hashes = hashes_of([{"slug": "ref-a", "attributes": {"key": "application"}}], ())

    assert hashes == indirect("ca2258ba-b4ee-3e42-cef0-3e239469e0fb")


def test_order_of_references_does_not_matter() -> None:
    assert hashes_of([APPLICATION, APPLICATION_REVISION], ()) == hashes_of([APPLICATION_REVISION, APPLICATION], ())


@pytest.mark.parametrize(
    "attributes",
    [{"key": "testset_variant"}, {"key": "testset_revision"}, {"key": "other"}, {"key": 5}, {"key": None}, {}],
)
def test_references_under_other_keys_are_ignored(attributes: dict[str, Any]) -> None:
    odd = {"slug": "x", "attributes": attributes}

    assert hashes_of([odd], ()) is None
    assert hashes_of([odd, APPLICATION], ()) == hashes_of([APPLICATION], ())


def test_empty_reference_is_ignored() -> None:
    assert hashes_of([{"attributes": {"key": "application"}}, {"slug": "x"}], ()) is None


@pytest.mark.parametrize("attributes", [{}, {"key": 5}, {"key": None}, {"key": {}}])
def test_links_without_a_key_are_ignored(attributes: dict[str, Any]) -> None:
    assert hashes_of([], [link(attributes)]) is None
