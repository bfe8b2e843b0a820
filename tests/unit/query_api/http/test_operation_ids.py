"""Names of operations follow from method and path."""

import re

import pytest

from query_api.http.operation_ids import operation_id
from query_api.http.routes import ROUTES


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


def test_names_are_names_in_every_language() -> None:
    names = [operation_id(route.method, route.path) for route in ROUTES]

    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+)+", name)] == []
