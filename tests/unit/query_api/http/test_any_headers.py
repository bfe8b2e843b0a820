"""Headers and slugs of any text are read, or rejected with a documented error: nothing else is raised."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, MultiDict
from pydantic import TypeAdapter, ValidationError

from common.errors import Forbidden, InvalidInput, Unauthorized
from query_api.freshness.headers import WAIT_FOR_HEADER, parse_coordinates, read_wanted
from query_api.http.authentication import check_not_a_page, owner_of
from query_api.http.body import takes_gzip
from query_api.http.dispatch import request_id_of
from query_api.registry.kinds import Slug
from query_api.request.route import Access, Request
from tests.support.api import PROJECT_A, KnownKeys, context_of

KEY = "abcdefgh." + "0" * 64
HEADER = st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
"""Header values as aiohttp gives them: bytes that are not UTF-8 are lone surrogates."""

SNIPPETS = ("localhost", "127.0.0.1", "[::1]", ".", ":", "@", "/", "\\", "%2e", "[", "]", "xn--", "\u3002", "8080", "a")
HOSTS = st.lists(st.sampled_from(SNIPPETS), max_size=6).map("".join) | HEADER
COORDINATES = st.lists(
    st.sampled_from(["spans", "/", ",", "0", "9" * 25, "-1", "\u0663", " ", "\udcff"]), max_size=8
).map("".join)


@given(HEADER | st.sampled_from([KEY, f"ApiKey {KEY}", f"Access {KEY}"]))
async def test_authorization_is_a_key_or_unauthorized(text: str) -> None:
    context = context_of(keys=KnownKeys({KEY: PROJECT_A}))
    for access in (Access.PROJECT, Access.ADMIN, Access.OPERATOR):
        with suppress(Unauthorized):
            owner = await owner_of(context, access=access, headers={"Authorization": text}, query=MultiDict())
            assert owner.project_id == PROJECT_A
            assert KEY in text


@given(HOSTS, HEADER)
def test_any_host_is_an_own_one_or_forbidden(host: str, site: str) -> None:
    with suppress(Forbidden):
        check_not_a_page({"Host": host, "Sec-Fetch-Site": site}, allowed_hosts="")
        assert site in ("none", "same-origin")


@given(HEADER | COORDINATES)
def test_wait_for_is_coordinates_or_invalid(text: str) -> None:
    request = Request(context_of(), PROJECT_A, {}, None, None, CIMultiDict({WAIT_FOR_HEADER: text}))
    with suppress(InvalidInput):
        read_wanted(text, request)
    with suppress(ValueError):
        parse_coordinates(text)


@given(HEADER)
def test_request_id_is_safe_to_log_whatever_is_sent(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", request_id_of({"X-Request-Id": text}))


@given(HEADER | st.lists(st.sampled_from(["gzip", "*", ";q=", "0", "1", ",", " ", "\u0663"]), max_size=8).map("".join))
def test_accepted_encodings_of_any_text_are_read(text: str) -> None:
    assert takes_gzip(text) in (True, False)


@given(st.text(max_size=40) | st.text("aZ09_.-~\n", max_size=8))
def test_slug_is_safe_in_a_url_or_rejected(text: str) -> None:
    if re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", text):
        assert TypeAdapter(Slug).validate_python(text) == text
    else:
        with pytest.raises(ValidationError):
            TypeAdapter(Slug).validate_python(text)
