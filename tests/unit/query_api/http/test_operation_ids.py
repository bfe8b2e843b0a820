"""Names of operations follow from method and path."""

import re

import pytest

from query_api.http.operation_ids import operation_id
from query_api.http.routes import ROUTES
from query_api.request.route import Route


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/spans/query", "query_spans"),
        ("GET", "/spans/{trace_id}/{span_id}", "get_span"),
        ("GET", "/spans", "list_spans"),
        ("POST", "/traces", "create_trace"),
        ("GET", "/traces/{trace_id}/outline", "get_trace_outline"),
        ("POST", "/traces/summaries/query", "query_trace_summaries"),
        ("POST", "/queries/revisions/commit", "commit_query_revision"),
        ("GET", "/queries/revisions/diff", "diff_query_revisions"),
        ("POST", "/simple/queries/{query_id}/archive", "archive_simple_query"),
        ("POST", "/subscriptions/{subscription_id}/pause", "pause_subscription"),
        ("POST", "/admin/dead-letters/replay", "replay_admin_dead_letters"),
        ("POST", "/admin/dead-letters/{dead_letter_id}/replay", "replay_admin_dead_letter"),
        ("PUT", "/retention", "set_retention"),
        ("GET", "/admin/status/freshness", "get_admin_status_freshness"),
    ],
)
def test_operation_is_named(method: str, path: str, name: str) -> None:
    assert operation_id(method, path) == name


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_name_is_a_name_in_every_language(route: Route) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", operation_id(route.method, route.path))
