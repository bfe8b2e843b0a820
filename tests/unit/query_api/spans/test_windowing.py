"""What ``windowing`` of a request means (contract §3.3)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from common.settings import QuerySettings
from query_api.analytics.models import CountsQuery, MetricSpec
from query_api.compat.flat import FlatQuery
from query_api.pages.sessions import ActivityWindowing
from query_api.queries.saved import SavedWindowing
from query_api.request.errors import InvalidRequest
from query_api.request.json_body import limit_of
from query_api.spans.windowing import Windowing

LIMITS = QuerySettings(page_limit_default=100, page_limit_max=50)


def test_default_limit_is_capped_by_the_maximum() -> None:
    assert limit_of(None, LIMITS) == 50


def test_limit_above_the_maximum_is_rejected() -> None:
    assert limit_of(50, LIMITS) == 50
    with pytest.raises(InvalidRequest):
        limit_of(51, LIMITS)


@pytest.mark.parametrize(
    ("model", "names", "others"),
    [
        (Windowing, ["limit", "wait_s", "rate", "interval"], {}),
        (SavedWindowing, ["limit"], {}),
        (FlatQuery, ["limit", "rate", "interval"], {}),
        (ActivityWindowing, ["limit", "rate"], {}),
        (CountsQuery, ["rate", "interval"], {}),
        (MetricSpec, ["bins", "vmin", "vmax"], {"type": "string", "path": "a"}),
    ],
)
def test_boolean_is_not_a_number(model: type[BaseModel], names: list[str], others: dict[str, Any]) -> None:
    for name in names:
        assert getattr(model.model_validate({**others, name: 1}), name) == 1
        with pytest.raises(ValidationError, match="a boolean is not a number"):
            model.model_validate({**others, name: True})
