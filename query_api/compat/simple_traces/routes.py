"""The routes of simple traces, annotations and invocations: the same three times (reference ``spans-api`` §1.6,
``workflows-evaluators-testsets`` §6 and §7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from pydantic import BaseModel

from common.scopes import KeyScope
from query_api.compat.simple_traces import annotation_models as others
from query_api.compat.simple_traces import models, spans
from query_api.compat.simple_traces.families import ANNOTATIONS, INVOCATIONS, SIMPLE_TRACES, TraceFamily
from query_api.compat.simple_traces.handlers import SimpleTraceHandlers
from query_api.request.route import Prepare, Route


class _Bodies(NamedTuple):
    """The models of the requests of a family, and what prepares the first."""

    create: type[BaseModel]
    prepare: Prepare
    edit: type[BaseModel]
    query: type[BaseModel]


# fmt: off
def _routes(path: str, words: tuple[str, str, str], family: TraceFamily, bodies: _Bodies, *, created_status: int = 200,
            ) -> tuple[Route, ...]:
    """Return the five routes of a family. ``words``: one with its article, several, and the tag."""
    one, several, tag = words
    handlers, by_id = SimpleTraceHandlers(family, created_status=created_status), f"{path}/{{trace_id}}"
    reading = (
        Route("POST", f"{path}/query", handlers.query, f"Query {several}.", tag, family.page, body=bodies.query),
        Route("GET", by_id, handlers.get, f"Get {one}.", tag, family.response),
        Route("PATCH", by_id, handlers.edit, f"Edit {one}.", tag, family.response, body=bodies.edit,
              body_required=True, ignores_unknown=True),
        Route("DELETE", by_id, handlers.delete, f"Delete {one}.", tag, family.deleted),
    )
    return (
        *(replace(route, reads_spans=True) for route in reading),
        Route("POST", path, handlers.create, f"Create {one}.", tag, family.response, body=bodies.create,
              body_required=True, ignores_unknown=True, prepare=bodies.prepare, status=created_status,
              needs=KeyScope.INGEST),
    )


SIMPLE_TRACE_ROUTES: Final = (
    *_routes("/simple/traces", ("a simple trace", "simple traces", "Simple traces"), SIMPLE_TRACES,
             _Bodies(models.CreateSimpleTrace, spans.draft_of_trace, models.EditSimpleTrace,
                     models.QuerySimpleTraces), created_status=202),
    *_routes("/annotations", ("an annotation", "annotations", "Annotations"), ANNOTATIONS,
             _Bodies(others.CreateAnnotation, spans.draft_of_annotation, others.EditAnnotation,
                     others.QueryAnnotations)),
    *_routes("/invocations", ("an invocation", "invocations", "Invocations"), INVOCATIONS,
             _Bodies(others.CreateInvocation, spans.draft_of_invocation, others.EditInvocation,
                     others.QueryInvocations)),
)
# fmt: on
