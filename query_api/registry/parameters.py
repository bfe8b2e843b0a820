"""A question in the query string, beside the one in the body, which wins (reference ``applications-api`` §8.3, ``spans-api`` §9.2). Pure.

Every layer of every kind takes both: ``parameters_model`` makes the parameters of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from pydantic import BeforeValidator, Field, Json, create_model

from query_api.registry.bodies import AskedFlags, FlagsIn, Question
from query_api.registry.models import Meta, Moment, Order, Tags, storable_json
from query_api.request.body_models import Strict
from query_api.request.references import NamedSlug, Text

AnyQuestion = TypeVar("AnyQuestion", bound=Question)

_COMMON = ("name", "description", "tags", "meta", "flags")
VERSIONED: Final = "_revision"
"""How the word ends for what has a version."""

_WINDOW = ("next", "newest", "oldest", "limit", "order")


class QuestionParameters(Strict):
    """What every question may say in the query string."""

    name: Text | None = None
    description: Text | None = None
    tags: Json[Tags] | None = Field(None, description="A JSON object.")
    meta: Json[Meta] | None = Field(None, description="A JSON object.")
    include_archived: bool | None = None
    next: UUID | None = Field(None, description="The id of the last row of the page before.")
    newest: Moment | None = None
    oldest: Moment | None = None
    limit: int | None = None
    order: Order | None = None


def parameters_model(name: str, words: Sequence[str], *, flags: type[FlagsIn] = AskedFlags) -> type[QuestionParameters]:
    """The parameters of a question that may name what ``words`` call so: ``query_id``, ``query_ids``, ``query_slug``, ``query_slugs``;
    revisions by their versions too.

    ``flags`` are those that may be asked for.
    """
    finite = Annotated[flags, BeforeValidator(storable_json)]  # type: ignore[valid-type] # a model that is handed in
    members: dict[str, Any] = {
        "flags": (Json[finite] | None, Field(None, description="A JSON object.")),  # type: ignore[misc] # as above
    }
    if words[-1].endswith(VERSIONED):
        members |= dict.fromkeys((f"{words[-1]}_version", f"{words[-1]}_versions"), (list[Text], Field([])))
    for word in words:
        members |= dict.fromkeys((f"{word}_id", f"{word}_ids"), (list[UUID], Field([])))
        members |= dict.fromkeys((f"{word}_slug", f"{word}_slugs"), (list[NamedSlug], Field([])))
    return create_model(name, __base__=QuestionParameters, __doc__="The same question.", __module__=__name__, **members)


def or_parameters(
    question: AnyQuestion, parameters: QuestionParameters | None, *, layer: str, words: Sequence[str]
) -> AnyQuestion:
    """The question; where it does not say, what the query string says. ``layer`` is the member about the rows themselves.

    Without any parameter of a window there is none: then everything comes, oldest first.
    """
    if parameters is None:
        return question
    said = {
        layer: _given(parameters, _COMMON),
        **{f"{word}_refs": _references(parameters, word) for word in words},
        "include_archived": parameters.include_archived,
        "windowing": _given(parameters, _WINDOW),
    }
    other = type(question).model_validate(said)
    taken = {name: getattr(other, name) for name in said if getattr(question, name) is None}
    return question.model_copy(update=taken)


def _given(parameters: QuestionParameters, names: Sequence[str]) -> dict[str, Any] | None:
    """Those members that are there; ``None`` where there are none."""
    members = {name: getattr(parameters, name, None) for name in names}
    return {name: member for name, member in members.items() if member is not None} or None


def _references(parameters: QuestionParameters, word: str) -> list[dict[str, Any]]:
    """Ids and slugs as references, which are alternatives of each other; versions narrow all of them."""
    named = [{member: value} for member in ("id", "slug") for value in _values(parameters, word, member)]
    versions = _values(parameters, word, "version")
    if not versions:
        return named
    return [{**reference, "version": version} for reference in named or [{}] for version in versions]


def _values(parameters: QuestionParameters, word: str, member: str) -> list[Any]:
    return [value for ending in ("", "s") for value in getattr(parameters, f"{word}_{member}{ending}", ())]
