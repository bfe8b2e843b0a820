"""Cleaning of references, and the array in responses."""

from typing import Any

import pytest

from ingest.references import REFERENCE_KEYS, clean_reference, references_of, references_sent

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
