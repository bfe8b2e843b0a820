"""The embedded stack as a fixture, shared by all acceptance tests that only read and write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.stack import RunningStack, running_stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    with running_stack(tmp_path_factory.mktemp("stack") / "data") as running:
        yield running
