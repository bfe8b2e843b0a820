"""Cleaning and hashing of references, and the array in responses."""

from typing import Any

import pytest

from common.ids import parse_span_id, parse_trace_id
from common.span import Link
from ingest.references import REFERENCE_KEYS, clean_reference, hashes_of, references_of, references_sent

DASHED = "019d952f-5945-71b1-b8cb-d6d8e675c18d"


def test_reference_keys_are_22() -> None:
    assert len(REFERENCE_KEYS) == 22
    assert {"testcase", "application", "application_variant", "environment_revision", "snippet"} < REFERENCE_KEYS


@pytest.mark.parametrize("spelling", [DASHED, DASHED.upper(), DASHED.replace("-", ""), "0x" + DASHED.replace("-", "")])
def test_id_in_any_spelling_becomes_dashed(spelling: str) -> None:
    assert clean_reference({"id": spelling}) == {"id": DASHED}


@pytest.mark.parametrize("no_uuid", ["x", "", "+" + "1" * 31, "1_" * 16, DASHED + "0", DASHED.replace("-", "") + "\n"])
def test_id_that_is_not_a_uuid_is_not_in_the_array(no_uuid: str) -> None:
    cleaned = clean_reference({"id": no_uuid, "slug": "s"})

    assert cleaned == {"id": no_uuid, "slug": "s"}
    assert references_of({"application": cleaned}) == [{"slug": "s", "attributes": {"key": "application"}}]


@pytest.mark.parametrize("slug", ["a", "-", "_x.y-z", "9", "a.b"])
def test_valid_slug_is_kept(slug: str) -> None:
    assert clean_reference({"slug": slug}) == {"slug": slug}


@pytest.mark.parametrize("slug", ["", ".", "..", ".x", "a/b", "a b", "é", "a\n"])
def test_invalid_slug_is_dropped(slug: str) -> None:
    assert clean_reference({"slug": slug}) == {}


def test_scalar_members_become_texts() -> None:
    assert clean_reference({"id": 5, "slug": 7, "version": 3, "other": 1}) == {"id": "5", "slug": "7", "version": "3"}
    assert clean_reference({"version": True}) == {"version": "true"}
    assert clean_reference({"id": None, "slug": {}, "version": ["3"]}) == {}


def test_reference_without_valid_members_is_an_element_with_its_key() -> None:
    assert references_of({"query": {}}) == [{"attributes": {"key": "query"}}]


def test_sent_references_are_cleaned_and_keep_their_attributes() -> None:
    sent: list[Any] = [
        {"id": DASHED.upper(), "attributes": {"key": "application", "x": 1}, "other": 2},
        {"slug": "s"},
        5,
    ]

    assert references_sent(sent) == [{"id": DASHED, "attributes": {"key": "application", "x": 1}}, {"slug": "s"}]
    assert sent[0]["id"] == DASHED.upper()


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
