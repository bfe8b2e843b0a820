"""A question about variants, out of a query string and a body: what the body says of a member wins (reference §8.3). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from query_api.applications.models import VariantAsked, VariantsParameters, VariantsQuestion
from query_api.lineage.models import IdWindowing, ReferenceIn


def with_parameters(question: VariantsQuestion, parameters: VariantsParameters) -> VariantsQuestion:
    """The question with what only the parameters say."""
    asked = _of_parameters(parameters)
    taken = {name: getattr(asked, name) for name in VariantsQuestion.model_fields if getattr(question, name) is None}
    return question.model_copy(update=taken)


def _of_parameters(given: VariantsParameters) -> VariantsQuestion:
    return VariantsQuestion(
        application_variant=VariantAsked(
            name=given.name, description=given.description, flags=given.flags, tags=given.tags, meta=given.meta
        ),
        application_refs=_references(
            (*given.application_id, *given.application_ids), (*given.application_slug, *given.application_slugs)
        ),
        application_variant_refs=_references(
            (*given.application_variant_id, *given.application_variant_ids),
            (*given.application_variant_slug, *given.application_variant_slugs),
        ),
        include_archived=given.include_archived,
        windowing=_windowing(given),
    )


def _references(ids: Iterable[UUID], slugs: Iterable[str]) -> list[ReferenceIn]:
    return [*(ReferenceIn(id=each) for each in ids), *(ReferenceIn(slug=each) for each in slugs)]


def _windowing(given: VariantsParameters) -> IdWindowing | None:
    """Without any parameter of a window there is none: then everything comes, oldest first."""
    members = {name: getattr(given, name) for name in ("next", "newest", "oldest", "limit", "order")}
    if all(member is None for member in members.values()):
        return None
    return IdWindowing(**members)
