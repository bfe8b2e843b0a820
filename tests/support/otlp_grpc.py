"""OTLP over gRPC for a context, listening on a free port of loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from query_api.http.body import body_budget
from query_api.http.dispatch import StartupState
from query_api.http.otlp_grpc import OtlpGrpcServer
from query_api.http.routes import OTLP
from query_api.request.context import ApiContext

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


@asynccontextmanager
async def serving_grpc(context: ApiContext, *, port: int = 0, state: StartupState | None = None) -> AsyncIterator[str]:
    """Serve while inside; yield the address."""
    server = OtlpGrpcServer(state or StartupState(context), OTLP, body_budget(context.settings))
    chosen = await server.start("127.0.0.1", port)
    try:
        yield f"127.0.0.1:{chosen}"
    finally:
        await server.stop(grace_s=5.0)
