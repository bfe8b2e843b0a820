from __future__ import annotations

from uuid import UUID

import pytest
from multidict import CIMultiDict

from common.errors import Conflict, InvalidInput
from common.postgres.pool import UniqueViolation
from query_api.registry.checks import edited_id, path_id, refuse_reserved, reporting_conflicts
from query_api.request.errors import InvalidRequest, MemberConflict, SlugTaken
from query_api.request.route import Request
from tests.support.api import PROJECT_A, context_of

ID = UUID("01a1fbd8-c525-7140-a8ae-e79b3fba464c")


def call(text: str) -> Request:
    return Request(context_of(), PROJECT_A, {"application_id": text}, None, None, CIMultiDict())


@pytest.mark.parametrize("text", [str(ID), ID.hex, ID.hex.upper()])
def test_id_is_read_in_any_notation(text: str):
    assert path_id(call(text)) == ID


def test_invalid_id_is_reported_with_its_place_in_the_path():
    with pytest.raises(InvalidRequest) as caught:
        path_id(call("nope"))

    assert [problem["loc"] for problem in caught.value.problems] == [["path", "application_id"]]


def test_body_must_repeat_the_id_of_the_path():
    assert edited_id(call(str(ID)), ID) == ID
    with pytest.raises(InvalidInput, match="do not match"):
        edited_id(call(str(ID)), UUID(int=1))
    with pytest.raises(InvalidInput, match=f"has no id.*{ID}"):
        edited_id(call(str(ID)), None)


def test_reserved_slug_is_rejected():
    refuse_reserved(None)
    refuse_reserved("_ag__x")
    with pytest.raises(InvalidInput):
        refuse_reserved("__ag__x")


def test_conflict_names_what_is_taken():
    with pytest.raises(SlugTaken) as slug, reporting_conflicts(slug="a"):
        raise UniqueViolation("…", constraint_name="variants_slug_unique")
    with pytest.raises(MemberConflict) as chosen, reporting_conflicts(slug="a", chosen_id=ID):
        raise UniqueViolation("…", constraint_name="artifacts_pkey")
    with pytest.raises(Conflict, match="again") as made_up, reporting_conflicts(slug=None):
        raise UniqueViolation("duplicate key", constraint_name="revisions_slug_unique")

    assert slug.value.conflict == {"slug": "a"}
    assert chosen.value.conflict == {"id": str(ID)}
    assert "duplicate key" not in made_up.value.detail
