"""The one tree of errors, and the codes under which a span can be refused.

::

    ServiceError
    ├── InvalidInput            the request means nothing
    │   ├── InvalidFilter       … because of its filter
    │   └── InvalidCursor       … because of its cursor
    ├── TooLarge                past a limit
    ├── UnsupportedMedia        a content type or encoding we refuse
    ├── Unauthorized            no key, or one that does not count
    │   └── NotAdmin            … where the admin key is needed
    ├── Forbidden               a key that may not do this
    ├── NotFound                what was named does not exist
    ├── Conflict                taken, or changed meanwhile
    ├── Rejected                a record or span that cannot be kept
    ├── Retryable                transient: later it can be had
    │   ├── Overloaded          … when somebody is less busy
    │   └── Unavailable         … when a system is there again
    │       └── NotMigrated     … or has its tables
    ├── DeadlineExceeded        transient: out of time
    │   └── OutOfMemory         … or of the memory of one query
    ├── RejectedByStore          the engine refuses these rows
    └── InvalidStatement        the engine refuses our SQL: our bug

Two translations exist and no third: to HTTP in ``query_api/request/errors.py``, to dispositions in ``ingest/worker.py``. ARCHITECTURE has
the table of both.
Errors of other systems are translated once, in the room of that system, with ``from exc``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class ErrorCode(StrEnum):
    """What kind of failure it is; decides status and disposition."""

    INVALID = "invalid"
    TOO_LARGE = "too_large"
    UNSUPPORTED_MEDIA = "unsupported_media"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    REJECTED = "rejected"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    INTERNAL = "internal"


class RejectionCode(StrEnum):
    """Why a record or a span is in the dead-letter topic."""

    UNDECODABLE = "undecodable"
    UNSUPPORTED_CONTENT_TYPE = "unsupported_content_type"
    UNKNOWN_PROJECT = "unknown_project"
    RECORD_TOO_LARGE = "record_too_large"
    SPAN_TOO_LARGE = "span_too_large"
    INVALID_TRACE_ID = "invalid_trace_id"
    INVALID_SPAN_ID = "invalid_span_id"
    INVALID_PARENT_ID = "invalid_parent_id"
    INVALID_LINK = "invalid_link"
    ABSURD_TIME = "absurd_time"
    UNKNOWN_ENUM = "unknown_enum"
    NULL_CHARACTER = "null_character"
    INVALID_UTF8 = "invalid_utf8"
    NESTING_TOO_DEEP = "nesting_too_deep"
    INVALID_TYPE = "invalid_type"
    REJECTED_BY_STORE = "refused_by_store"
    OUR_FAILURE = "our_failure"
    MANY_SPANS = "many_spans"


class ServiceError(Exception):
    """Something went wrong.

    ``public_message`` is what callers over HTTP hear, where ``detail`` has the words of a driver, which name addresses and users: those are
    for our own log.
    """

    code: ClassVar[ErrorCode] = ErrorCode.INTERNAL
    transient: ClassVar[bool] = False

    def __init__(self, detail: str | None = None, *, public_message: str | None = None) -> None:
        self.detail = detail or (type(self).__doc__ or "").splitlines()[0]
        self.public_message = public_message or self.detail
        super().__init__(self.detail)


class InvalidInput(ServiceError):
    """The request means nothing."""

    code = ErrorCode.INVALID


class InvalidFilter(InvalidInput):
    """The filter cannot be applied to spans.

    ``path`` is the JSON path of the offending member, as in ``filtering.conditions[1].operator``.
    """

    def __init__(self, path: str, detail: str) -> None:
        self.path = path
        super().__init__(f"{path}: {detail}" if path else detail)


class InvalidCursor(InvalidInput):
    """The cursor is not one of ours, or belongs to another question."""


class TooLarge(ServiceError):
    """The request is larger than the limit."""

    code = ErrorCode.TOO_LARGE


class UnsupportedMedia(ServiceError):
    """The content type or encoding is not supported."""

    code = ErrorCode.UNSUPPORTED_MEDIA


class Unauthorized(ServiceError):
    """Unauthorized"""

    code = ErrorCode.UNAUTHORIZED
    scheme = "ApiKey"
    """Of the ``Authorization`` that would be taken."""


class NotAdmin(Unauthorized):
    """Unauthorized"""

    scheme = "Access"


class Forbidden(ServiceError):
    """This key may not do that."""

    code = ErrorCode.FORBIDDEN


class NotFound(ServiceError):
    """Not Found"""

    code = ErrorCode.NOT_FOUND


class Conflict(ServiceError):
    """The request conflicts with what is stored."""

    code = ErrorCode.CONFLICT


class Rejected(ServiceError):
    """The record or span cannot be kept; it becomes a dead letter."""

    code = ErrorCode.REJECTED

    def __init__(self, rejection: RejectionCode, detail: str) -> None:
        self.rejection = rejection
        super().__init__(detail)


class Retryable(ServiceError):
    """What is asked cannot be had now; it can after ``retry_after_s``."""

    transient = True

    def __init__(
        self, detail: str | None = None, *, public_message: str | None = None, retry_after_s: float = 1.0
    ) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(detail, public_message=public_message)


class Overloaded(Retryable):
    """The service is busy."""

    code = ErrorCode.OVERLOADED


class Unavailable(Retryable):
    """A system that is needed is away."""

    code = ErrorCode.UNAVAILABLE


class NotMigrated(Unavailable):
    """``system`` does not have all tables of this program, or has older ones."""

    def __init__(self, system: str) -> None:
        super().__init__(f"{system} does not have the tables of this version yet: `clearspan migrate` makes them.")


class DeadlineExceeded(ServiceError):
    """The query ran out of its time budget."""

    code = ErrorCode.DEADLINE_EXCEEDED
    transient = True


class OutOfMemory(DeadlineExceeded):
    """The query ran out of its memory budget."""


class RejectedByStore(ServiceError):
    """The engine refuses these rows; the same rows will be refused again."""


class InvalidStatement(ServiceError):
    """The engine refuses a statement of ours."""
