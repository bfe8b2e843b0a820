"""The errors of the program, and the codes of rejected records and spans.

::

    ServiceError
    ├── InvalidInput            the request is invalid
    │   ├── InvalidFilter       … because of its filter
    │   └── InvalidCursor       … because of its cursor
    ├── TooLarge                a limit is exceeded
    ├── UnsupportedMedia        the content type or encoding is not supported
    ├── Unauthorized            the key is missing or invalid
    │   └── NotAdmin            … where the admin key is required
    ├── Forbidden               the key does not allow this
    ├── NotFound                the named thing does not exist
    ├── Conflict                the request conflicts with stored data
    ├── Rejected                a record or span that cannot be stored
    ├── Retryable               transient: may succeed later
    │   ├── Overloaded          … when the service is less busy
    │   └── Unavailable         … when a system is available again
    │       └── NotMigrated     … or has its tables
    ├── DeadlineExceeded        transient: out of time
    │   └── OutOfMemory         … or out of the memory of one query
    ├── RejectedByStore         the engine rejects these rows
    └── InvalidStatement        the engine rejects our SQL: a bug of ours

Errors become HTTP responses in ``query_api/request/errors.py`` and dispositions in ``ingest/worker.py``, nowhere else;
ARCHITECTURE has the table of both. Errors of other systems become these in the package of that system, with ``from
exc``. The first line of a docstring is the default message.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import ClassVar, Final


class InvalidSettings(Exception):
    """A setting is unknown or invalid. The message names it and says what is allowed."""


class ErrorCode(StrEnum):
    """The kind of an error; decides HTTP status and disposition."""

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
    INVALID_TYPE = "invalid_type"
    REJECTED_BY_STORE = "refused_by_store"
    OUR_FAILURE = "our_failure"
    MANY_SPANS = "many_spans"


_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")


def _sendable(text: str) -> str:
    """Return a message that quotes what was sent, without halves of surrogate pairs, which cannot be encoded."""
    return _HALF_PAIR.sub("\ufffd", text)


class ServiceError(Exception):
    """An error occurred.

    ``detail`` is for the log. ``public_message`` is sent to HTTP clients instead if ``detail`` contains the words of a
    driver, which may name addresses and users.
    """

    code: ClassVar[ErrorCode] = ErrorCode.INTERNAL
    transient: ClassVar[bool] = False

    def __init__(self, detail: str | None = None, *, public_message: str | None = None) -> None:
        self.detail = _sendable(detail or (type(self).__doc__ or "").splitlines()[0])
        self.public_message = _sendable(public_message or self.detail)
        super().__init__(self.detail)


class InvalidInput(ServiceError):
    """The request is invalid."""

    code = ErrorCode.INVALID


class InvalidFilter(InvalidInput):
    """The filter cannot be applied to spans.

    ``path`` is the JSON path of the offending member, as in ``filtering.conditions[1].operator``.
    """

    def __init__(self, path: str, detail: str) -> None:
        self.path = path
        super().__init__(f"{path}: {detail}" if path else detail)


class InvalidCursor(InvalidInput):
    """The cursor is invalid, or belongs to another query."""


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
    """The scheme of the ``Authorization`` header that is required."""


class NotAdmin(Unauthorized):
    """Unauthorized"""

    scheme = "Access"


class Forbidden(ServiceError):
    """This key does not allow that."""

    code = ErrorCode.FORBIDDEN


class NotFound(ServiceError):
    """Not Found"""

    code = ErrorCode.NOT_FOUND


class Conflict(ServiceError):
    """The request conflicts with stored data."""

    code = ErrorCode.CONFLICT


class Rejected(ServiceError):
    """The record or span cannot be stored; it is dead-lettered."""

    code = ErrorCode.REJECTED

    def __init__(self, rejection: RejectionCode, detail: str) -> None:
        self.rejection = rejection
        super().__init__(detail)


RETRY_AFTER_S_MAX: Final = 86_400.0
"""The longest time that a client is asked to wait."""


class Retryable(ServiceError):
    """Temporarily unavailable; retry after ``retry_after_s`` seconds, at most ``RETRY_AFTER_S_MAX``."""

    transient = True

    def __init__(
        self, detail: str | None = None, *, public_message: str | None = None, retry_after_s: float = 1.0
    ) -> None:
        self.retry_after_s = min(retry_after_s, RETRY_AFTER_S_MAX)
        super().__init__(detail, public_message=public_message)


class Overloaded(Retryable):
    """The service is busy."""

    code = ErrorCode.OVERLOADED


class Unavailable(Retryable):
    """A required system is unavailable."""

    code = ErrorCode.UNAVAILABLE


class NotMigrated(Unavailable):
    """``system`` does not have the tables of this version."""

    def __init__(self, system: str) -> None:
        super().__init__(
            f"{system} does not have the tables of this version yet. Run `clearspan migrate` to create them."
        )


class DeadlineExceeded(ServiceError):
    """The query ran out of its time budget."""

    code = ErrorCode.DEADLINE_EXCEEDED
    transient = True


class OutOfMemory(DeadlineExceeded):
    """The query ran out of its memory budget."""


class RejectedByStore(ServiceError):
    """The engine rejects these rows, and will reject them again."""


class InvalidStatement(ServiceError):
    """The engine rejects a statement of ours."""
