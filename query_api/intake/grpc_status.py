"""Errors as ``google.rpc.Status``: the body of errors over OTLP/HTTP, and the status of calls over OTLP/gRPC.

Source: OpenTelemetry Protocol 1.x, “Failures” and “OTLP/gRPC Throttling”: clients retry ``RESOURCE_EXHAUSTED`` only if
the status has a ``RetryInfo``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from common.codec.protobuf_cut import encode_delimited, encode_varint
from common.errors import ErrorCode, Retryable, ServiceError

INTERNAL: Final = 13
CODES: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.INVALID: 3,
    ErrorCode.REJECTED: 3,
    ErrorCode.TOO_LARGE: 3,
    ErrorCode.DEADLINE_EXCEEDED: 4,
    ErrorCode.FORBIDDEN: 7,
    ErrorCode.OVERLOADED: 8,
    ErrorCode.UNAVAILABLE: 14,
    ErrorCode.UNAUTHORIZED: 16,
}

_RETRY_INFO: Final = b"type.googleapis.com/google.rpc.RetryInfo"


def code_of(error: ServiceError) -> int:
    """Return the code of gRPC for an error."""
    return CODES.get(error.code, INTERNAL)


def status_message(code: int, text: str) -> bytes:
    """Encode ``google.rpc.Status``: field 1 is the code, field 2 the message. Its package would be a dependency."""
    return b"\x08" + encode_varint(code) + encode_delimited(2, text.encode())


def with_retry_info(status: bytes, error: Retryable) -> bytes:
    """Add to a status when to retry: field 3 is an ``Any`` with a ``RetryInfo``, whose field 1 is a ``Duration``."""
    delay = b"\x08" + encode_varint(max(1, math.ceil(error.retry_after_s)))
    retry_info = encode_delimited(1, delay)
    return status + encode_delimited(3, encode_delimited(1, _RETRY_INFO) + encode_delimited(2, retry_info))
