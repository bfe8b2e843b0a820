"""Schemas of the OpenAPI document are good to generate clients from."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from query_api.http.component_schemas import ComponentSchemas
from query_api.request.json_body import ShownTime
from query_api.request.route import Request, Response, Route


class LeafModel(BaseModel):
    """A part of both."""

    note: str | None = None
    below: list[LeafModel] = Field(default_factory=list)


class PartModel(BaseModel):
    """A part of the response."""

    at: ShownTime | None = Field(None, description="The time.")
    meta: dict[str, Any] | None = Field(None, description="Anything.")
    value: str | int | None = None
    given: str | None
    leaf: LeafModel | None = None


class Asking(BaseModel):
    """A request."""

    leaf: LeafModel | None = None


class Answering(BaseModel):
    """A response."""

    part: PartModel


async def _handle(request: Request) -> Response:
    raise NotImplementedError


def _schemas(response: type[BaseModel] = Answering) -> dict[str, Any]:
    route = Route("POST", "/things/query", _handle, "Query things.", "Things", response, body=Asking)
    return ComponentSchemas([route], []).definitions


def test_schemas_have_the_names_of_classes_without_the_ending_model() -> None:
    assert set(_schemas()) == {"Answering", "Asking", "JsonObject", "Leaf", "Part"}


def test_optional_member_of_a_response_is_absent_and_never_null() -> None:
    members = _schemas()["Part"]["properties"]

    assert members["at"] == {"type": "string", "format": "date-time", "description": "The time."}
    assert members["value"] == {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert members["leaf"] == {"$ref": "#/components/schemas/Leaf"}


def test_required_member_of_a_response_may_be_null() -> None:
    assert {"type": "null"} in _schemas()["Part"]["properties"]["given"]["anyOf"]


def test_part_of_a_request_too_may_be_null() -> None:
    assert _schemas()["Leaf"]["properties"]["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}


def test_objects_with_free_members_share_a_schema() -> None:
    member = _schemas()["Part"]["properties"]["meta"]

    assert member == {"$ref": "#/components/schemas/JsonObject", "description": "Anything."}


def test_one_name_for_two_schemas_is_an_error() -> None:
    class Leaf(BaseModel):
        """Another one."""

        model_config = ConfigDict(title="Leaf")

    class Confusing(Answering):
        """A response."""

        leaf: Leaf

    with pytest.raises(ValueError, match="Leaf names two schemas"):
        _schemas(Confusing)
