"""The commands in ``docs/alerts.md``, run in order by a shell, print what the page shows; the page names the limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from common.postgres.pool import Database
from common.settings import ClickHouseSettings, DeliverySettings
from jobs.alerts.evaluation import GROUPS_MAX
from jobs.alerts.jobs import EVALUATIONS_MAX, SENDERS_MAX, WAITING_MAX
from tests.support.delivery import deliveries, delivery_settings
from tests.support.shell_pages import DOCS, check_commands, commands, stack_of_a_page
from tests.support.stores import opened_store


@pytest.mark.long
async def test_commands_print_what_the_page_shows(
    chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings], shared_database: Database, tmp_path: Path
) -> None:
    page = commands("alerts.md")
    assert len([shown for _, shown in page if shown is not None]) == 2
    async with (
        opened_store(chdb_settings(), data_dir=chdb_dir) as store,
        deliveries(store, shared_database, delivery_settings()) as api,
    ):
        with stack_of_a_page(str(api.client._base_url).rstrip("/"), tmp_path / "data") as environment:
            await check_commands(page, environment=environment, prelude=f"cd '{tmp_path}'\n")
        left = (await api.call("POST", "/alerts/query"))["count"]

    assert left == 0


def test_page_names_the_limits() -> None:
    page = " ".join((DOCS / "alerts.md").read_text().split())
    defaults = DeliverySettings()

    assert f"at least {defaults.alert_every_min_s} s" in page
    assert f"at most {defaults.alerts_max} alerts" in page
    assert f"An evaluation examines {GROUPS_MAX:,} groups" in page
    assert f"{WAITING_MAX:,} messages wait" in page
    assert EVALUATIONS_MAX // 2 == 2
    assert "at most two evaluations" in page
    assert f"at most {SENDERS_MAX // 2} alerts at the same time" in page
