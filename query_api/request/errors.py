"""Convert errors to HTTP responses: the table of statuses, and the body of each error (contract §1).

Errors that exist only over HTTP are defined here. Everything that is not a ``ServiceError`` is a bug of ours: the
client gets status 500 and an id.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

import orjson

from common.errors import (
    Conflict,
    ErrorCode,
    InvalidInput,
    Retryable,
    ServiceError,
    Unauthorized,
)
from query_api.request.route import MethodNotAllowed, Response

STATUS: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.INVALID: 400,
    ErrorCode.REJECTED: 400,
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.CONFLICT: 409,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.UNSUPPORTED_MEDIA: 415,
    ErrorCode.OVERLOADED: 429,
    ErrorCode.INTERNAL: 500,
    ErrorCode.UNAVAILABLE: 503,
    ErrorCode.DEADLINE_EXCEEDED: 504,
}
INVALID_REQUEST_STATUS: Final = 422
METHOD_NOT_ALLOWED_STATUS: Final = 405
INTERNAL_STATUS: Final = STATUS[ErrorCode.INTERNAL]
INTERNAL_MESSAGE: Final = "An unexpected error occurred. Please try again later or contact support."


class InvalidRequest(InvalidInput):
    """The request does not match the schema of the route.

    ``problems`` are ``{"type", "loc", "msg", "input", "ctx"?}``, ``loc`` beginning with ``body``, ``path`` or
    ``query``.
    """

    def __init__(self, problems: Sequence[Mapping[str, Any]]) -> None:
        self.problems = problems
        super().__init__("; ".join(str(problem["msg"]) for problem in problems))


class MemberConflict(Conflict):
    """A member of the request conflicts with stored data. ``conflict`` is its name and value."""

    def __init__(self, detail: str, *, conflict: Mapping[str, str]) -> None:
        self.conflict = conflict
        super().__init__(detail)


class SlugTaken(MemberConflict):
    """Another resource of the same kind, archived or not, has the slug."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"A resource with slug '{slug}' already exists in this project.", conflict={"slug": slug})


class RevisionConflict(Conflict):
    """The base revision is not the head of the variant: somebody else committed first."""

    def __init__(self, *, base_revision_id: UUID, current_revision_id: UUID | None) -> None:
        self.base_revision_id = base_revision_id
        self.current_revision_id = current_revision_id
        super().__init__()


def status_of(error: ServiceError) -> int:
    """Return the HTTP status of an error."""
    match error:
        case InvalidRequest():
            return INVALID_REQUEST_STATUS
        case MethodNotAllowed():
            return METHOD_NOT_ALLOWED_STATUS
        case _:
            return STATUS[error.code]


def response_of(error: ServiceError) -> Response:
    """Return the response to an error, except to an ``internal`` one, which is logged (``internal_error_response``)."""
    return Response(orjson.dumps({"detail": _detail(error)}), status=status_of(error), headers=headers_of(error))


def headers_of(error: ServiceError) -> dict[str, str]:
    """Return the headers of the response to an error."""
    match error:
        case Retryable():
            return {"Retry-After": str(max(1, math.ceil(error.retry_after_s)))}
        case MethodNotAllowed():
            return {"Allow": ", ".join(error.allowed)}
        case Unauthorized():
            return {"WWW-Authenticate": error.scheme}
        case _:
            return {}


def internal_error_response(operation_id: str) -> Response:
    """Return the response to a bug of ours: only the id of its log entry."""
    detail = {"message": INTERNAL_MESSAGE, "operation_id": operation_id}
    return Response(orjson.dumps({"detail": detail}), status=INTERNAL_STATUS)


def new_operation_id() -> str:
    """Return an id that connects a response with status 500 to its log entry."""
    return uuid4().hex


def _detail(error: ServiceError) -> Any:
    match error:
        case InvalidRequest():
            return error.problems
        case MemberConflict():
            return {"message": error.detail, "conflict": error.conflict}
        case RevisionConflict():
            return {
                "code": "revision_conflict",
                "message": error.detail,
                "retryable": False,
                "next_step": "Read the current revision, bring your change to it, and commit with it as the base.",
                "details": {
                    "base_revision_id": error.base_revision_id,
                    "current_revision_id": error.current_revision_id,
                },
            }
        case _ if error.code is ErrorCode.UNAUTHORIZED:
            return {"message": error.detail}
        case _:
            return error.public_message
