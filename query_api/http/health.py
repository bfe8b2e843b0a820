"""Whether the process lives, whether it can work, and what it counts."""

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
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Whether requests can be answered, and if not, what is missing."""

    status: Literal["ready", "not ready"]
    waiting_for: dict[str, str] | None = Field(None, description="What does not answer, and why.")


async def livez(request: Request) -> Response:  # noqa: ARG001 - the one shape of handlers
    """200 while the process answers at all."""
    return json_response(Liveness())


async def readyz(request: Request) -> Response:
    """200 when every system answers, else 503 that names the ones that do not, with reasons."""
    checks = request.context.checks
    reasons = await asyncio.gather(*(_reason(check) for check in checks.values()))
    missing = {name: reason for name, reason in zip(checks, reasons, strict=True) if reason is not None}
    if missing:
        answer = Readiness(status="not ready", waiting_for=missing)
        return json_response(answer, status=503, headers={"Retry-After": "1"})
    return json_response(Readiness(status="ready"))


async def metrics(request: Request) -> Response:  # noqa: ARG001 - the one shape of handlers
    """Everything that is counted, in Prometheus' text format."""
    return Response(generate_latest(), content_type=CONTENT_TYPE_LATEST)


async def _reason(check: Check) -> str | None:
    """Why a system does not answer, or ``None`` if it does."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            await check()
    except ServiceError as error:
        return error.public_message
    except TimeoutError:
        return f"No answer within {CHECK_TIMEOUT_S:g} s."
    return None
