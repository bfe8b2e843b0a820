"""Probes and metrics: whether the process is alive, whether it can answer requests, and what it counts."""

from __future__ import annotations

import asyncio
from typing import Final, Literal

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, Field

from common.errors import ServiceError
from query_api.request.context import Check
from query_api.request.json_body import json_response
from query_api.request.route import Request, Response

CHECK_TIMEOUT_S: Final = 2.0


class Liveness(BaseModel):
    """The process is alive."""

    status: Literal["ok"] = Field("ok", description="Always `ok`.")


class Readiness(BaseModel):
    """Whether the process can answer requests, and what is missing if not."""

    status: Literal["ready", "not ready"] = Field(description="Whether the process can answer requests.")
    waiting_for: dict[str, str] | None = Field(None, description="The systems that do not answer, each with a reason.")


async def livez(request: Request) -> Response:  # noqa: ARG001 - a handler
    """Return 200 while the process is alive."""
    return json_response(Liveness())


async def readyz(request: Request) -> Response:
    """Return 200 if every system answers, else 503 with the systems that do not, and why."""
    checks = request.context.checks
    reasons = await asyncio.gather(*(_reason(check) for check in checks.values()))
    missing = {name: reason for name, reason in zip(checks, reasons, strict=True) if reason is not None}
    if missing:
        readiness = Readiness(status="not ready", waiting_for=missing)
        return json_response(readiness, status=503, headers={"Retry-After": "1"})
    return json_response(Readiness(status="ready"))


async def metrics(request: Request) -> Response:  # noqa: ARG001 - a handler
    """Return the metrics of the process in the text format of Prometheus."""
    return Response(generate_latest(), content_type=CONTENT_TYPE_LATEST)


async def _reason(check: Check) -> str | None:
    """Return why a system does not answer, or ``None`` if it does."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            await check()
    except ServiceError as error:
        return error.public_message
    except TimeoutError:
        return f"No answer within {CHECK_TIMEOUT_S:g} s."
    return None
