"""Large data of revisions is changed in another process: what a kind is goes there with it."""

from __future__ import annotations

import pytest

from query_api.compute.ipc import decode, encode
from query_api.registry.applications_handlers import HISTORY as APPLICATIONS
from query_api.registry.environments_handlers import HISTORY as ENVIRONMENTS
from query_api.registry.history import History
from query_api.registry.queries_handlers import HISTORY as QUERIES


@pytest.mark.parametrize("history", [APPLICATIONS, ENVIRONMENTS, QUERIES], ids=lambda each: each.names.artifact)
def test_a_kind_arrives_as_it_was_sent(history: History) -> None:
    assert decode(encode(history)) == history
