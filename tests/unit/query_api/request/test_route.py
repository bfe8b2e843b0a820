from __future__ import annotations

import pytest

from common.errors import NotFound
from query_api.request.route import MethodNotAllowed, Request, Response, Route, Router


async def _handler(call: Request) -> Response:
    return Response(b"")


def _route(method: str, path: str) -> Route:
    return Route(method, path, _handler, "", "", None)


ROUTER = Router(
    [
        _route("GET", "/traces/{trace_id}"),
        _route("PUT", "/traces/{trace_id}"),
        _route("POST", "/traces/query"),
        _route("POST", "/traces"),
        _route("GET", "/spans/{trace_id}/{span_id}"),
        _route("POST", "/a/{x}/c"),
        _route("POST", "/a/b/{y}"),
    ]
)


@pytest.mark.parametrize(
    "path",
    ["/traces", "/traces/", "/api/traces", "/api/api/api/traces/", "/preview/traces", "/api/preview/traces"],
)
def test_prefixes_and_a_trailing_slash_match_the_same_route(path: str) -> None:
    assert ROUTER.match("POST", path).route.path == "/traces"


@pytest.mark.parametrize("path", ["/", "", "/api", "/trace", "/traces/1/2/3", "/traces//", "/Traces", "/x/api/traces"])
def test_unknown_path_is_not_found(path: str) -> None:
    with pytest.raises(NotFound, match="Not Found"):
        ROUTER.match("POST", path)


def test_path_parameters_are_decoded_by_segment() -> None:
    match = ROUTER.match("GET", "/spans/a%2Fb/%C3%A4%20c")

    assert match.path == {"trace_id": "a/b", "span_id": "ä c"}


def test_encoded_slash_does_not_separate_segments() -> None:
    with pytest.raises(NotFound):
        ROUTER.match("POST", "/traces%2Fquery")


def test_literal_wins_over_a_parameter_from_left_to_right() -> None:
    assert ROUTER.match("POST", "/traces/query").route.path == "/traces/query"
    assert ROUTER.match("POST", "/a/b/c").route.path == "/a/b/{y}"


@pytest.mark.parametrize("word", ["query", "QUERY"])
def test_literal_segment_is_never_an_id_in_any_case(word: str) -> None:
    with pytest.raises(MethodNotAllowed) as raised:
        ROUTER.match("GET", f"/api/traces/{word}/")

    assert raised.value.detail == f"GET /traces/{word} is not supported."
    assert raised.value.allowed == ["POST"]


def test_wrong_method_is_405_with_the_allowed_methods() -> None:
    with pytest.raises(MethodNotAllowed) as raised:
        ROUTER.match("DELETE", "/traces/1")

    assert raised.value.detail == "Method Not Allowed"
    assert raised.value.allowed == ["GET", "HEAD", "PUT"]


def test_head_matches_the_route_of_get() -> None:
    assert ROUTER.match("HEAD", "/traces/1").route.method == "GET"


def test_duplicate_route_is_an_error_at_start() -> None:
    with pytest.raises(ValueError, match="GET /x is routed twice"):
        Router([_route("GET", "/x"), _route("GET", "/x")])


def test_route_that_begins_with_a_parameter_is_an_error_at_start() -> None:
    with pytest.raises(ValueError, match="begins with a parameter"):
        Router([_route("GET", "/{anything}")])
