"""What ``windowing`` of a request means (contract §3.3)."""

from __future__ import annotations

import pytest

from query_api.errors import InvalidRequest
from query_api.spans.models import Windowing
from query_api.spans.windowing import limit_of


def test_a_request_that_says_no_limit_is_not_refused_where_pages_are_shorter_than_the_default() -> None:
    assert limit_of(Windowing(), default=100, most=50) == 50


def test_a_limit_is_legal_up_to_the_most_and_refused_one_past_it() -> None:
    assert limit_of(Windowing(limit=50), default=100, most=50) == 50
    with pytest.raises(InvalidRequest):
        limit_of(Windowing(limit=51), default=100, most=50)
