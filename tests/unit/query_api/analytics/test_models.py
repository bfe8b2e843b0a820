"""Specs of statistics."""

from __future__ import annotations

import pytest

from query_api.analytics.models import MetricSpec, MetricType


@pytest.mark.parametrize(
    ("path", "key"), [("attributes.a.b", "a.b"), ("a.b", "a.b"), ("attributes.attributes.a", "attributes.a")]
)
def test_path_may_begin_with_attributes(path: str, key: str) -> None:
    assert MetricSpec(type=MetricType.STRING, path=path).key == key
