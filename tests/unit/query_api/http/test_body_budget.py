from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from common.errors import Overloaded
from common.limits import MIB
from common.settings import HttpSettings, LimitSettings, Settings
from common.tenant import Tenant
from query_api.http.body import BodyBudget

ONE, OTHER = (Tenant(UUID(int=number), has_neighbours=True) for number in (1, 2))
ALONE = replace(ONE, has_neighbours=False)


def _budget(*, bodies: int = 4 * MIB, body: int = MIB) -> BodyBudget:
    http, limits = HttpSettings(bodies_bytes_max=bodies), LimitSettings(body_bytes_max=body)
    return BodyBudget(Settings.model_validate({"http": http, "limits": limits}))


def test_a_project_with_neighbours_has_half_and_leaves_the_other_half() -> None:
    budget = _budget()
    budget.take(ONE, 2 * MIB)

    with pytest.raises(Overloaded):
        budget.take(ONE, 1)
    budget.take(OTHER, 2 * MIB)
    budget.give_back(ONE, MIB)
    budget.take(ONE, MIB)


def test_a_project_without_neighbours_has_everything_and_no_more() -> None:
    budget = _budget()
    budget.take(ALONE, 4 * MIB)

    with pytest.raises(Overloaded):
        budget.take(ALONE, 1)


@pytest.mark.parametrize("tenant", [ONE, ALONE])
def test_there_is_always_room_for_one_body(tenant: Tenant) -> None:
    _budget(body=8 * MIB).take(tenant, 8 * MIB)
