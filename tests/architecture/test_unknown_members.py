"""An unknown member is refused where it would widen an answer, and ignored where something is created or edited (contract §1).

Walks every route with a body or a query string, as a client does, and puts one unknown member at every place where an object
with known members stands.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import aiohttp
import pytest
import pytest_asyncio

from query_api.compat.keys import PREFIXED_KEY_ROUTES
from query_api.delivery.alerts.handlers import ALERT_ROUTES
from query_api.delivery.handlers import SUBSCRIPTION_ROUTES
from query_api.http.routes import DEAD_LETTERS, ROUTES
from query_api.keys.handlers import KEY_ROUTES
from query_api.request.json_body import SCOPE_PARAMETERS
from query_api.request.route import Access, Request, Response, Route
from tests.support.api import context_of, serving
from tests.support.history import renamed

UNKNOWN: Final = "slugg"
FORBIDDEN: Final = "extra_forbidden"
UNION_TAGS: Final = frozenset(
    {"Condition", "Filtering", "list", "object", "webhook", "kafka", "otlp", "parquet", "single", "quotient", "score"}
)
"""What pydantic writes into a path besides the members: which shape of several was read."""

STRICT_IN_CREATE: Final = frozenset({"data", "delta", "rules"})
"""Members of creating bodies in which unknown members are refused: what a revision holds, and rules of masking, where a
typo would mask too much."""


class Place(NamedTuple):
    """An object in a body that has known members. ``body`` holds the unknown one there."""

    path: tuple[str | int, ...]
    body: Any


def places_of(route: Route) -> Iterator[Place]:
    """Every place of a route's body, the outermost first."""
    if route.body is None:
        return
    schema = route.body.model_json_schema()
    yield from _places(schema, schema.get("$defs", {}), seen=())


def _places(schema: Any, definitions: Any, *, seen: tuple[str, ...]) -> Iterator[Place]:
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    if name and name not in seen:
        yield from _places(definitions[name], definitions, seen=(*seen, name))
    for alternative in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _places(alternative, definitions, seen=seen)
    if "properties" in schema:
        yield from _places_of_object(schema, definitions, seen=seen)
    elif isinstance(schema.get("additionalProperties"), dict):
        for path, body in _places(schema["additionalProperties"], definitions, seen=seen):
            yield Place(("name", *path), {"name": body})
    elif "items" in schema:
        for path, body in _places(schema["items"], definitions, seen=seen):
            yield Place((0, *path), [body])


def _places_of_object(schema: Any, definitions: Any, *, seen: tuple[str, ...]) -> Iterator[Place]:
    required = {name: schema["properties"][name].get("const", "x") for name in schema.get("required", ())}
    yield Place((UNKNOWN,), {**required, UNKNOWN: 1})
    for name, member in schema["properties"].items():
        for path, body in _places(member, definitions, seen=seen):
            yield Place((name, *path), {**required, name: body})


async def _accept(_call: Request) -> Response:
    return Response(b"{}")


TAKING = [route for route in ROUTES if route.body is not None or route.query is not None]
ANSWERING = tuple(replace(route, handler=_accept, reads_spans=False, access=Access.PUBLIC) for route in TAKING)
NARROWING = [route for route in TAKING if not route.ignores_unknown]
CREATING = [route for route in TAKING if route.ignores_unknown]
CREATING_WORDS: Final = ("commit", "fork", "revert", "deploy", "ingest", "accounts", "check")


def _name(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with serving(context_of(), routes=ANSWERING) as client:
        yield client


async def _problems(client: aiohttp.ClientSession, route: Route, **sent: Any) -> list[tuple[str, list[Any]]]:
    path = "/".join("0" * 32 if part.startswith("{") else part for part in route.path.split("/"))
    async with client.request(route.method, path, **sent) as response:
        if response.status != 422:
            return []
        detail = (await response.json())["detail"]
    return [(each["type"], [step for step in each["loc"] if step not in UNION_TAGS]) for each in detail]


def test_only_routes_that_create_or_edit_ignore_unknown_members() -> None:
    for route in TAKING:
        last = route.path.rsplit("/", 1)[-1]
        is_creating = route.method in ("PUT", "PATCH") or last in CREATING_WORDS
        is_creating |= route.method == "POST" and last in {
            *(
                "annotations",
                "invocations",
                "applications",
                "evaluators",
                "environments",
                "queries",
                "variants",
                "revisions",
                "traces",
            )
        }
        is_creating &= route.tag not in ("Subscriptions", "Alerts")  # a typo would deliver more than was meant
        is_creating &= not route.path.endswith("/revisions/check")  # it finds what a commit would ignore

        assert route.ignores_unknown is is_creating, _name(route)


@pytest.mark.asyncio(loop_scope="module")
async def test_unknown_member_of_a_query_is_422_with_its_place(client: aiohttp.ClientSession) -> None:
    for route in NARROWING:
        for place in places_of(route):
            found = await _problems(client, route, json=place.body)

            assert ((FORBIDDEN, ["body", *place.path]) in found) is not _is_free(place), (_name(route), place)

        assert (FORBIDDEN, ["query", UNKNOWN]) in await _problems(client, route, params={UNKNOWN: "x"}), _name(route)


@pytest.mark.asyncio(loop_scope="module")
async def test_unknown_member_of_a_creation_is_ignored_except_in_revision_data(client: aiohttp.ClientSession) -> None:
    for route in CREATING:
        for place in places_of(route):
            found = await _problems(client, route, json=place.body)

            is_refused = (FORBIDDEN, ["body", *place.path]) in found
            is_strict = bool(STRICT_IN_CREATE.intersection(place.path) and not _is_free(place))
            assert is_refused is is_strict, (_name(route), place)

        found = await _problems(client, route, params={UNKNOWN: "x"})
        assert (FORBIDDEN, ["query", UNKNOWN]) not in found, _name(route)


def _is_free(place: Place) -> bool:
    """Clients of the reference send other members in `schemas` (§1.4), which mean nothing."""
    return "schemas" in place.path


@pytest.mark.asyncio(loop_scope="module")
async def test_scope_is_accepted_by_every_route(client: aiohttp.ClientSession) -> None:
    for route in TAKING:
        found = await _problems(client, route, params=dict.fromkeys(SCOPE_PARAMETERS, "x"))

        assert [loc for _, loc in found if loc[-1] in SCOPE_PARAMETERS] == [], _name(route)


def test_every_depth_of_a_body_is_visited() -> None:
    [query] = [route for route in NARROWING if _name(route) == "POST /spans/query"]
    paths = {place.path for place in places_of(query)}

    assert {
        (UNKNOWN,),
        ("windowing", UNKNOWN),
        ("filtering", "conditions", 0, "options", UNKNOWN),
        ("query_ref", UNKNOWN),
    } <= paths


ID: Final = "01a1fbd8-c525-7140-a8ae-e79b3fba464c"
REFERENCE: Final = {"id": ID, "slug": "a", "version": "1"}
WINDOWING: Final = {
    "newest": "2026-01-02T00:00:00Z",
    "oldest": "2026-01-01T00:00:00Z",
    "limit": 10,
    "order": "ascending",
    "rate": 0.5,
    "interval": 60,
}
PAGE: Final = {"include_archived": True, "windowing": {**WINDOWING, "next": ID}}
ROW: Final = {
    "slug": "a",
    "slugs": ["a"],
    "name": "n",
    "description": "d",
    "tags": {"t": {"u": True}},
    "meta": {"m": [1]},
}
FLAT: Final = {
    "focus": "span",
    "format": "agenta",
    "oldest": 1_700_000_000,
    "newest": "2026-01-01T00:00:00Z",
    "interval": 60,
    "rate": 0.5,
    "filter": {"conditions": []},
}
STRING: Final = {
    "name": "n",
    "description": "d",
    "flags": "{}",
    "tags": '{"t": "u"}',
    "meta": '{"m": 1}',
    "include_archived": "true",
    "next": ID,
    "newest": "2026-01-02T00:00:00Z",
    "oldest": "2026-01-01T00:00:00Z",
    "limit": "10",
    "order": "ascending",
}


def _named(*words: str) -> dict[str, str]:
    """The ids and slugs of a query string."""
    return {
        f"{word}_{member}{end}": ID if member == "id" else "a"
        for word in words
        for member in ("id", "slug")
        for end in ("", "s")
    }


def _references(*words: str) -> dict[str, Any]:
    return {f"{word}_ref": REFERENCE for word in words}


def _layers(word: str) -> tuple[str, str, str]:
    return word, f"{word}_variant", f"{word}_revision"


FLAGS: Final = dict.fromkeys(
    (
        *(
            "is_application",
            "is_evaluator",
            "is_snippet",
            "is_managed",
            "is_custom",
            "is_llm",
            "is_hook",
            "is_code",
            "is_match",
        ),
        *("is_feedback", "is_agent", "is_skill", "is_chat", "has_url", "has_script", "has_handler", "is_static"),
    ),
    True,
)
APPLICATION, QUERY, ENVIRONMENT = (_layers(word) for word in ("application", "query", "environment"))

SENT_BY_CLIENTS: Final[list[tuple[str, Any, Any]]] = [
    (
        "/spans/query",
        {"filtering": {"operator": "and", "conditions": []}, "windowing": WINDOWING, **_references(*QUERY)},
        None,
    ),
    ("/traces/query", {"filtering": {}, "windowing": {**WINDOWING, "next": ID}, **_references(*QUERY)}, None),
    ("/tracing/spans/query", {**FLAT, "limit": 1}, {**FLAT, "limit": 1, "filter": "{}"}),
    ("/tracing/spans/analytics", {**FLAT, "limit": 1}, {**FLAT, "limit": 1, "filter": "{}"}),
    (
        "/tracing/analytics/query",
        {**FLAT, "specs": [{"type": "binary", "path": "p"}]},
        {**FLAT, "filter": "{}", "specs": "[]"},
    ),
    (
        "/spans/analytics/query",
        {
            **FLAT,
            "specs": [{"type": "numeric/continuous", "path": "p", "bins": 1, "vmin": 0, "vmax": 1, "edge": True}],
            "windowing": {**WINDOWING, "next": ID},
            "filtering": {},
        },
        None,
    ),
    ("/spans/sessions/query", {"realtime": True, "windowing": {**WINDOWING, "next": "n"}}, None),
    ("/tracing/users/query", {"realtime": False, "windowing": WINDOWING}, None),
    (
        "/simple/traces/query",
        {
            "trace": {
                "origin": "human",
                "kind": "eval",
                "channel": "sdk",
                "tags": {"t": 1},
                "meta": {"m": 1},
                "references": {
                    **{
                        layer: REFERENCE
                        for word in ("query", "testset", "application", "evaluator", "environment")
                        for layer in _layers(word)
                    },
                    "testcase": REFERENCE,
                    "selector": {"key": "k"},
                },
                "links": {"invocation": {"trace_id": "a" * 32, "span_id": "b" * 16}},
            },
            "links": [{"trace_id": "a" * 32, "span_id": "b" * 16}],
            "windowing": WINDOWING,
        },
        None,
    ),
    (
        "/applications/query",
        {"application": {**ROW, "flags": FLAGS, "folder_id": None}, "application_refs": [REFERENCE], **PAGE},
        None,
    ),
    (
        "/applications/variants/query",
        {
            "application_variant": {**ROW, "flags": FLAGS},
            "application_refs": [{"id": ID, "slug": "a"}],
            "application_variant_refs": [REFERENCE],
            **PAGE,
        },
        {**STRING, **_named("application", "application_variant")},
    ),
    (
        "/applications/revisions/query",
        {
            "application_revision": {
                **ROW,
                "flags": FLAGS,
                "author": ID,
                "authors": [ID],
                "message": "m",
                "version": "1",
                "date": "2026-01-01T00:00:00Z",
                "dates": ["2026-01-01T00:00:00Z"],
                "workflow_variant_id": ID,
            },
            **{f"{layer}_refs": [REFERENCE] for layer in APPLICATION},
            **PAGE,
        },
        None,
    ),
    (
        "/applications/revisions/log",
        {
            "application_revisions": {
                **dict.fromkeys((f"{layer}_id" for word in ("application", "workflow") for layer in _layers(word)), ID),
                "artifact_id": ID,
                "variant_id": ID,
                "revision_id": ID,
                "depth": "2",
                "include_archived": True,
            }
        },
        None,
    ),
    (
        "/applications/revisions/retrieve",
        {"resolve": True, "key": "k", **_references(*APPLICATION, *ENVIRONMENT)},
        None,
    ),
    (
        "/workflows/revisions/retrieve",
        {"resolve": True, "key": None, **_references(*_layers("workflow"), *ENVIRONMENT)},
        None,
    ),
    (
        "/applications/revisions/resolve",
        {
            "max_depth": 10,
            "max_embeds": 100,
            "error_policy": "keep",
            "application_revision": {"data": {}, "workflow_slug": "a", "flags": {}},
            **_references(*APPLICATION),
        },
        None,
    ),
    (
        "/simple/applications/query",
        {"application": {**ROW, "flags": FLAGS}, "application_refs": [REFERENCE], **PAGE},
        None,
    ),
    ("/environments/query", None, {**STRING, **_named("environment")}),
    ("/environments/variants/query", None, {**STRING, **_named("environment", "environment_variant")}),
    (
        "/environments/revisions/query",
        None,
        {**STRING, **_named(*ENVIRONMENT), "environment_revision_version": "1", "environment_revision_versions": "2"},
    ),
    (
        "/environments/revisions/resolve",
        {
            "environment_revision": {"data": {}, "id": ID, "environment_slug": "a", "author": ID},
            **_references(*ENVIRONMENT),
        },
        None,
    ),
    (
        "/workflows/revisions/resolve",
        {
            "workflow_revision": {"data": {"parameters": {}}, "version": "1"},
            "error_policy": "exception",
            **_references(*_layers("workflow")),
        },
        None,
    ),
    ("/environments/revisions/retrieve", {"resolve": True, **_references(*ENVIRONMENT)}, None),
    ("/simple/environments/query", {"environment": {"slug": "a"}, "environment_refs": [{"slug": "a"}], **PAGE}, None),
    ("/queries/query", None, {**STRING, **_named("query")}),
    (
        "/queries/variants/query",
        {"query_variant": {**ROW, "flags": {}}, "query_refs": [REFERENCE], "query_variant_refs": [REFERENCE], **PAGE},
        None,
    ),
    (
        "/queries/revisions/query",
        {
            "query_revision": {**ROW, "author": ID, "message": "m"},
            **{f"{layer}_refs": [REFERENCE] for layer in QUERY},
            **PAGE,
        },
        None,
    ),
    (
        "/queries/revisions/log",
        {"query_revisions": {**{f"{layer}_id": ID for layer in QUERY}, "depth": 1}},
        None,
    ),
    (
        "/queries/revisions/retrieve",
        {
            **_references(*QUERY),
            "include_trace_ids": True,
            "include_traces": False,
            "windowing": {"limit": 1, "next": ID},
        },
        None,
    ),
    (
        "/simple/queries/query",
        {"query": {"flags": {}, "tags": {"t": "u"}, "meta": {}}, "query_refs": [REFERENCE], **PAGE},
        None,
    ),
]
"""Everything that the references list for a question (``spans-api`` §1, §8 to §10; ``applications-api`` §6 to §8, §10.3): POST path, body
and query string."""

EVERY_QUERY: Final = [
    *SENT_BY_CLIENTS,
    *(tuple(json.loads(renamed(json.dumps(sent)))) for sent in SENT_BY_CLIENTS if "/applications/" in sent[0]),
    *(
        (f"/{one}s/query", {one: body["trace"], f"{one}_links": body["links"], "windowing": WINDOWING}, None)
        for path, body, _ in SENT_BY_CLIENTS
        if path == "/simple/traces/query"
        for one in ("annotation", "invocation")
    ),
]
"""Evaluators are asked for as applications are, annotations and invocations as simple traces."""


@pytest.mark.parametrize(
    ("path", "body", "params"), EVERY_QUERY, ids=lambda value: value if isinstance(value, str) else ""
)
@pytest.mark.asyncio(loop_scope="module")
async def test_every_member_that_clients_of_the_reference_send_is_known(
    client: aiohttp.ClientSession, path: str, body: Any, params: Any
) -> None:
    async with client.post(path, json=body, params=params) as response:
        assert response.status == 200, await response.text()


def test_every_query_of_the_reference_is_covered() -> None:
    asked = {route.path for route in NARROWING if route.method == "POST"}
    twins = {path.replace("/tracing/", "/spans/").replace("/users/", "/sessions/") for path, *_ in EVERY_QUERY}
    added = {"/spans/groups/query", "/spans/facets/query", "/traces/summaries/query", "/filters/parse"}
    beyond = {
        "/environments/revisions/log",
        "/applications/revisions/check",
        "/evaluators/revisions/check",
        "/admin/presence/query",
        *added,
        *(
            route.path
            for route in (*DEAD_LETTERS, *SUBSCRIPTION_ROUTES, *ALERT_ROUTES, *KEY_ROUTES, *PREFIXED_KEY_ROUTES)
        ),
    }

    assert {path.replace("/tracing/", "/spans/").replace("/users/", "/sessions/") for path in asked} - twins <= beyond
