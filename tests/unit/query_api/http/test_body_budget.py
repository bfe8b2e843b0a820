from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from common.errors import Overloaded
from common.fair_share import Tenant
from common.limits import MIB
from common.settings import HttpSettings, LimitSettings, Settings
from query_api.http.body import BodyBudget

ONE, OTHER = (Tenant(UUID(int=number), has_neighbors=True) for number in (1, 2))
ALONE = replace(ONE, has_neighbors=False)


def _budget(*, bodies: int = 4 * MIB, body: int = MIB) -> BodyBudget:
    http, limits = HttpSettings(bodies_bytes_max=bodies), LimitSettings(body_bytes_max=body)
    return BodyBudget(Settings.model_validate({"http": http, "limits": limits}))


def test_project_with_neighbors_gets_half_of_the_memory() -> None:
    budget = _budget()
    budget.take(ONE, 2 * MIB)

    with pytest.raises(Overloaded):
        budget.take(ONE, 1)
    budget.take(OTHER, 2 * MIB)
    budget.give_back(ONE, MIB)
    budget.take(ONE, MIB)


def test_project_without_neighbors_gets_all_memory() -> None:
    budget = _budget()
    budget.take(ALONE, 4 * MIB)

    with pytest.raises(Overloaded):
        budget.take(ALONE, 1)


@pytest.mark.parametrize("tenant", [ONE, ALONE])
def test_one_body_of_the_largest_size_is_always_allowed(tenant: Tenant) -> None:
    _budget(body=8 * MIB).take(tenant, 8 * MIB)
