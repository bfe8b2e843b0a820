"""The models of simple traces as annotations and as invocations: the same with other names of members.

What an annotation or an invocation requires besides is declared here; the rest follows from the models that they have
in common.

Source: reference ``workflows-evaluators-testsets`` §6 and §7.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import ConfigDict, Field

from query_api.compat.simple_traces.models import (
    CreateSimpleTrace,
    EditSimpleTrace,
    QuerySimpleTraces,
    SimpleLinks,
    SimpleReferences,
    SimpleTraceCreate,
    SimpleTraceDeleted,
    SimpleTraceEdit,
    SimpleTraceResponse,
    SimpleTracesResponse,
)
from query_api.registry.kinds import LooseReferenceIn

_ANNOTATION: Final[dict[str, Any]] = {
    "annotation": {
        "origin": "human",
        "data": {"outputs": {"score": 0.9}},
        "references": {"evaluator": {"slug": "helpfulness"}},
        "links": {"invocation": {"trace_id": "5b8efff798038103d269b633813fc60c", "span_id": "eee19b7ec3c1b174"}},
    }
}
_INVOCATION: Final[dict[str, Any]] = {
    "invocation": {
        "data": {"inputs": {"question": "How long?"}, "outputs": "Within 30 days."},
        "references": {"application": {"slug": "faq-bot"}},
        "links": None,
    }
}


def _members_of(one: str) -> ConfigDict:
    """Return the configuration of a model whose members have the names of annotations or invocations."""
    names = {"trace": one, "traces": f"{one}s", "link": f"{one}_link", "links": f"{one}_links"}
    return ConfigDict(alias_generator=lambda name: names.get(name, name))


_OF_ANNOTATIONS: Final = _members_of("annotation")
_OF_INVOCATIONS: Final = _members_of("invocation")


class AnnotationReferences(SimpleReferences):
    """References from an annotation to its evaluator and other entities, by name."""

    evaluator: LooseReferenceIn = Field(
        description="The evaluator, by id or slug. If there is none, it is created with a schema that follows from the"
        " data of the annotation."
    )


class AnnotationCreate(SimpleTraceCreate):
    """The annotation to create: a trace of one span."""

    references: AnnotationReferences = Field(description="References to entities.")


class AnnotationEdit(SimpleTraceEdit):
    """The changes of an annotation. Absent members are kept."""

    references: AnnotationReferences | None = Field(None, description="The new references.")


class CreateAnnotation(CreateSimpleTrace):
    """The request to create an annotation."""

    model_config = _OF_ANNOTATIONS | ConfigDict(json_schema_extra={"examples": [_ANNOTATION]})

    trace: AnnotationCreate = Field(description="The annotation to create.")


class EditAnnotation(EditSimpleTrace):
    """The request to edit an annotation."""

    model_config = _OF_ANNOTATIONS

    trace: AnnotationEdit = Field(description="The changes of the annotation.")


class QueryAnnotations(QuerySimpleTraces):
    """A query for annotations. Without members it returns the newest page of all annotations."""

    model_config = _OF_ANNOTATIONS


class AnnotationResponse(SimpleTraceResponse):
    """One annotation, or none."""

    model_config = _OF_ANNOTATIONS


class AnnotationsResponse(SimpleTracesResponse):
    """A page of annotations, the latest match first."""

    model_config = _OF_ANNOTATIONS


class AnnotationDeleted(SimpleTraceDeleted):
    """The deleted annotation, or none."""

    model_config = _OF_ANNOTATIONS


class InvocationCreate(SimpleTraceCreate):
    """The invocation to create: a trace of one span."""

    references: SimpleReferences = Field(
        description="References to entities. `application` names the application, by id or slug; if there is none, it"
        " is created. Or `environment` and `selector.key` name what is deployed there."
    )
    links: SimpleLinks | None = Field(  # type: ignore[assignment]
        description="Links to other spans, by name or as a list. May be null."
    )


class CreateInvocation(CreateSimpleTrace):
    """The request to create an invocation."""

    model_config = _OF_INVOCATIONS | ConfigDict(json_schema_extra={"examples": [_INVOCATION]})

    trace: InvocationCreate = Field(description="The invocation to create.")


class EditInvocation(EditSimpleTrace):
    """The request to edit an invocation."""

    model_config = _OF_INVOCATIONS


class QueryInvocations(QuerySimpleTraces):
    """A query for invocations. Without members it returns the newest page of all invocations."""

    model_config = _OF_INVOCATIONS


class InvocationResponse(SimpleTraceResponse):
    """One invocation, or none."""

    model_config = _OF_INVOCATIONS


class InvocationsResponse(SimpleTracesResponse):
    """A page of invocations, the latest match first."""

    model_config = _OF_INVOCATIONS


class InvocationDeleted(SimpleTraceDeleted):
    """The deleted invocation, or none."""

    model_config = _OF_INVOCATIONS
