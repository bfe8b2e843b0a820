"""Which scope of a key each route needs: a new route that changes something must not be open to keys that read."""

from __future__ import annotations

from collections import defaultdict

from common.scopes import KeyScope
from query_api.http.routes import ROUTES
from query_api.request.route import Access

SENDS = {
    "GET /v1/traces", "POST /v1/traces", "POST /v1/metrics", "POST /v1/logs",
    "GET /otlp/v1/traces", "POST /otlp/v1/traces", "POST /otlp/v1/metrics", "POST /otlp/v1/logs",
    "POST /simple/traces", "POST /annotations", "POST /invocations", "POST /tracing/spans/ingest", "POST /traces/ingest", "POST /traces",
    "PUT /traces/{trace_id}", "POST /tracing/traces", "PUT /tracing/traces/{trace_id}",
}  # fmt: skip
DECIDES = {
    "GET /projects/keys", "POST /projects/keys", "POST /projects/keys/{key_id}/rotate",
    "DELETE /projects/keys/{key_id}", "GET /keys", "POST /keys", "DELETE /keys/{prefix}", "GET /audit",
    "PUT /masking", "DELETE /masking", "PUT /retention", "DELETE /retention",
}  # fmt: skip
READS = ("/query", "/retrieve", "/log", "/resolve", "/check", "/analytics")


def test_every_route_needs_the_scope_of_what_it_does() -> None:
    by_scope: dict[KeyScope, set[str]] = defaultdict(set)
    for route in ROUTES:
        if route.access is Access.PROJECT:
            by_scope[route.scope].add(f"{route.method} {route.path}")

    assert by_scope[KeyScope.INGEST] == SENDS
    assert by_scope[KeyScope.ADMIN] == DECIDES
    assert [each for each in by_scope[KeyScope.READ] if not each.startswith("GET ") and not each.endswith(READS)] == []
    assert [each for each in by_scope[KeyScope.WRITE] if each.startswith("GET ") or each.endswith(READS)] == []
