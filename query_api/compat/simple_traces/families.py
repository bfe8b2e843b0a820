"""What distinguishes simple traces, annotations and invocations: a family is a value, the handlers are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from query_api.compat.simple_traces import annotation_models, models
from query_api.registry.applications import APPLICATION, EVALUATOR
from query_api.registry.kinds import History

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFamily:
    """Simple traces under one name."""

    one: str
    """The member of a body that holds one."""

    own_ids: str
    """The member of a query that holds their own ids."""

    entity: History
    """What they refer to, and what is created if there is none."""

    needs_entity: bool
    """Whether each refers to an entity; else only those with a link and the reference do."""

    is_validated: bool
    """Whether their data must match the schema of the outputs of the entity."""

    default_name: str
    """The name of the span without an entity."""

    response: type[models.SimpleTraceResponse]
    page: type[models.SimpleTracesResponse]
    deleted: type[models.SimpleTraceDeleted]
    flags: Mapping[str, bool] = field(default_factory=dict)
    """Flags of the span besides those of origin, kind and channel."""

    conditions: tuple[Json, ...] = ()
    """What a query requires of the root span besides its own conditions."""

    def owns(self, span: Json) -> bool:
        """Return whether a trace with this root span is one of them."""
        match self.one:
            case "annotation":
                is_evaluator = span["attributes"]["ag"].get("flags", {}).get("is_evaluator") is True
                return is_evaluator or span.get("trace_type") == "annotation"
            case "invocation":
                keys = [(reference.get("attributes") or {}).get("key") for reference in span.get("references") or []]
                return span.get("trace_type") == "invocation" and self.entity.labels.artifact in keys
            case _:
                return True


SIMPLE_TRACES: Final = TraceFamily(
    one="trace",
    own_ids="links",
    entity=EVALUATOR,
    needs_entity=False,
    is_validated=False,
    default_name="annotation",
    response=models.SimpleTraceResponse,
    page=models.SimpleTracesResponse,
    deleted=models.SimpleTraceDeleted,
)
ANNOTATIONS: Final = TraceFamily(
    one="annotation",
    own_ids="annotation_links",
    entity=EVALUATOR,
    needs_entity=True,
    is_validated=True,
    default_name="annotation",
    response=annotation_models.AnnotationResponse,
    page=annotation_models.AnnotationsResponse,
    deleted=annotation_models.AnnotationDeleted,
    flags={"is_evaluator": True},
    conditions=({"field": "trace_type", "operator": "is", "value": "annotation"},),
)
INVOCATIONS: Final = TraceFamily(
    one="invocation",
    own_ids="invocation_links",
    entity=APPLICATION,
    needs_entity=True,
    is_validated=False,
    default_name="invocation",
    response=annotation_models.InvocationResponse,
    page=annotation_models.InvocationsResponse,
    deleted=annotation_models.InvocationDeleted,
    conditions=(
        {"field": "trace_type", "operator": "is", "value": "invocation"},
        {"field": "references", "operator": "in", "value": [{"attributes.key": "application"}]},
    ),
)
BY_NAME: Final = {family.one: family for family in (SIMPLE_TRACES, ANNOTATIONS, INVOCATIONS)}
