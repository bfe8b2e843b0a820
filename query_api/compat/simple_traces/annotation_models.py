"""The models of simple traces as annotations and as invocations: the same with other names of members.

Source: reference ``workflows-evaluators-testsets`` §6 and §7.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import ConfigDict, Field

from query_api.compat.simple_traces.models import (
    CreateSimpleTrace,
    EditSimpleTrace,
    LinkFilter,
    QuerySimpleTraces,
    SimpleLink,
    SimpleLinks,
    SimpleReferences,
    SimpleTrace,
    SimpleTraceCreate,
    SimpleTraceDeleted,
    SimpleTraceEdit,
    SimpleTraceFilter,
    SimpleTraceResponse,
    SimpleTracesResponse,
)
from query_api.registry.kinds import LooseReferenceIn
from query_api.request.json_body import Listed

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

    model_config = ConfigDict(json_schema_extra={"examples": [_ANNOTATION]})

    trace: AnnotationCreate = Field(alias="annotation", description="The annotation to create.")


class EditAnnotation(EditSimpleTrace):
    """The request to edit an annotation."""

    trace: AnnotationEdit = Field(alias="annotation", description="The changes of the annotation.")


class QueryAnnotations(QuerySimpleTraces):
    """A query for annotations. Without members it returns the newest page of all annotations."""

    trace: SimpleTraceFilter | None = Field(None, alias="annotation", description="The filter of the annotations.")
    links: Listed[LinkFilter] | None = Field(
        None, alias="annotation_links", description="The ids of the annotations themselves."
    )


class AnnotationResponse(SimpleTraceResponse):
    """One annotation, or none."""

    trace: SimpleTrace | None = Field(None, alias="annotation", description="The annotation.")


class AnnotationsResponse(SimpleTracesResponse):
    """A page of annotations, the latest match first."""

    traces: list[SimpleTrace] = Field(alias="annotations", description="The annotations.")


class AnnotationDeleted(SimpleTraceDeleted):
    """The deleted annotation, or none."""

    link: SimpleLink | None = Field(None, alias="annotation_link", description="The ids of the span.")


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

    model_config = ConfigDict(json_schema_extra={"examples": [_INVOCATION]})

    trace: InvocationCreate = Field(alias="invocation", description="The invocation to create.")


class EditInvocation(EditSimpleTrace):
    """The request to edit an invocation."""

    trace: SimpleTraceEdit = Field(alias="invocation", description="The changes of the invocation.")


class QueryInvocations(QuerySimpleTraces):
    """A query for invocations. Without members it returns the newest page of all invocations."""

    trace: SimpleTraceFilter | None = Field(None, alias="invocation", description="The filter of the invocations.")
    links: Listed[LinkFilter] | None = Field(
        None, alias="invocation_links", description="The ids of the invocations themselves."
    )


class InvocationResponse(SimpleTraceResponse):
    """One invocation, or none."""

    trace: SimpleTrace | None = Field(None, alias="invocation", description="The invocation.")


class InvocationsResponse(SimpleTracesResponse):
    """A page of invocations, the latest match first."""

    traces: list[SimpleTrace] = Field(alias="invocations", description="The invocations.")


class InvocationDeleted(SimpleTraceDeleted):
    """The deleted invocation, or none."""

    link: SimpleLink | None = Field(None, alias="invocation_link", description="The ids of the span.")
