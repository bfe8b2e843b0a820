from __future__ import annotations

from uuid import UUID

import pytest

from common.errors import Overloaded
from common.limits import MIB
from common.settings import HttpSettings, LimitSettings, Settings
from common.tenant import Tenant, working_for
from query_api.body_budget import BodyBudget

ONE, OTHER = UUID(int=1), UUID(int=2)


def _budget(*, bodies: int = 4 * MIB, body: int = MIB) -> BodyBudget:
    return BodyBudget(
        Settings.model_validate(
            {"http": HttpSettings(bodies_bytes_max=bodies), "limits": LimitSettings(body_bytes_max=body)}
        )
    )


def test_a_project_has_half_and_leaves_the_other_half() -> None:
    budget = _budget()
    with working_for(Tenant(ONE, has_neighbours=True)):
        budget.take(ONE, 2 * MIB)

        with pytest.raises(Overloaded):
            budget.take(ONE, 1)
    with working_for(Tenant(OTHER, has_neighbours=True)):
        budget.take(OTHER, 2 * MIB)
    with working_for(Tenant(ONE, has_neighbours=True)):
        budget.give_back(ONE, MIB)
        budget.take(ONE, MIB)


def test_a_project_without_neighbours_has_everything_and_no_more() -> None:
    budget = _budget()
    budget.take(ONE, 4 * MIB)

    with pytest.raises(Overloaded):
        budget.take(ONE, 1)


@pytest.mark.parametrize("has_neighbours", [True, False])
def test_there_is_always_room_for_one_body(has_neighbours: bool) -> None:
    with working_for(Tenant(ONE, has_neighbours)):
        _budget(body=8 * MIB).take(ONE, 8 * MIB)
