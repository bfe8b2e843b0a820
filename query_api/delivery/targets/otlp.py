"""Delivers batches to an OTLP/HTTP endpoint: protobuf, gzip (OpenTelemetry Protocol 1.x, “OTLP/HTTP”).

An endpoint may accept a request and reject some of its spans. They are not sent again, as the protocol demands; their
number and the reason are recorded at the subscription.

Running spans are not sent: OTLP has no spans without an end, and receivers keep the first span of an id. The feed
returns a span again when its end is stored, and then it is sent.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from yarl import URL

from common.fair_share import in_thread
from common.span import RUNNING
from query_api.delivery.addresses import AddressRules
from query_api.delivery.targets.http import HttpSender
from query_api.delivery.targets.otlp_message import export_request
from query_api.delivery.targets.target import DeliveryBatch, RejectedSpans
from query_api.filter.language import STATE

TRACES_PATH: Final = "/v1/traces"
_GZIP_LEVEL: Final = 1
_REASON_LENGTH_MAX: Final = 1_000


def traces_url(endpoint: str) -> str:
    """Return the address for traces: the endpoint itself, or ``/v1/traces`` if it names only a host."""
    url = URL(endpoint)
    return str(url.with_path(TRACES_PATH)) if url.path in ("", "/") and not url.query_string else endpoint


class OtlpTarget:
    """One endpoint. ``ag``: also send the attributes below ``ag``."""

    def __init__(
        self, endpoint: str, headers: Mapping[str, str], *, ag: bool, timeout_s: float, rules: AddressRules
    ) -> None:
        self._sender = HttpSender(traces_url(endpoint), timeout_s=timeout_s, rules=rules)
        self._headers = {**headers, "Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        self._ag = ag

    async def deliver(self, batch: DeliveryBatch, /) -> RejectedSpans | None:
        """Send a batch as one request, and return what the endpoint rejects. Raises as ``Target.deliver``."""
        ended = [span for span in batch.spans if span.get(STATE) != RUNNING]
        if not ended:
            return None
        body = await in_thread(_body, ended, self._ag)
        answer = await self._sender.post(body, self._headers, reads_response=True)
        return rejected_in(answer, spans_count=len(ended))

    async def check(self) -> str | None:
        """Return why the endpoint cannot be reached now, or ``None``."""
        return await self._sender.check()

    async def close(self) -> None:
        """Close the connections."""
        await self._sender.close()


def _body(spans: Sequence[Mapping[str, Any]], ag: bool) -> bytes:  # noqa: FBT001 - called in a thread
    return gzip.compress(export_request(spans, ag=ag).SerializeToString(), _GZIP_LEVEL)


def rejected_in(body: bytes, *, spans_count: int) -> RejectedSpans | None:
    """Return what a successful response rejects. One that is neither protobuf nor JSON rejects nothing: endpoints
    answer with all kinds of texts.
    """
    count, reason = _partial_success(body)
    return RejectedSpans(min(count, spans_count), reason[:_REASON_LENGTH_MAX]) if count > 0 else None


def _partial_success(body: bytes) -> tuple[int, str]:
    try:
        partial = ExportTraceServiceResponse.FromString(body).partial_success
    except DecodeError:
        pass
    else:
        return partial.rejected_spans, partial.error_message
    try:
        members = orjson.loads(body).get("partialSuccess") or {}
        return int(members.get("rejectedSpans") or 0), str(members.get("errorMessage") or "")
    except (ValueError, TypeError, AttributeError):
        return 0, ""
