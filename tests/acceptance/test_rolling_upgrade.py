"""An upgrade without a stop: processes of an older release and of this one run at the same time on the new tables.

Until there is a release, the older one is this tree, and the newer one is a copy with one more migration of each
database. ``docs/upgrade.md`` describes the steps of this test.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fixtures_clickhouse import FreshSettings
from tests.support.deployment import (
    THIS,
    Deployment,
    Project,
    Release,
    ServerProcess,
    deployment,
    next_release,
    until,
)
from tests.support.kafka import Broker
from tests.support.postgres import PostgresServer
from tests.support.producing import SPANS_OF_A_RECORD, FeedReader, Producer, producing

pytestmark = pytest.mark.long

FIRST_SPANS: Final = 200
FAR_NUMBER: Final = 1_000_000
"""More than the producer sends."""


class Committer:
    """Commits revisions of an application and of a saved query through any API."""

    def __init__(self, project: Project, api: ServerProcess) -> None:
        self._project = project
        application = project.call(api, "/applications/", {"application": {"slug": "bot"}}).body["application"]
        wanted = {"application_id": application["id"], "slug": "bot.main"}
        made = project.call(api, "/applications/variants/", {"application_variant": wanted}).body
        self._variant_id = made["application_variant"]["id"]
        query = {"slug": "all", "data": {"windowing": {"limit": 5}}}
        self._query_id = project.call(api, "/simple/queries/", {"query": query}).body["query"]["variant_id"]
        self.count = 0

    def commit(self, api: ServerProcess) -> None:
        """Commit a revision to each, and run the saved query."""
        body: dict[str, Any] = {
            "application_variant_id": self._variant_id,
            "data": {"parameters": {"number": self.count}},
        }
        self._project.call(api, "/applications/revisions/commit", {"application_revision": body})
        body = {"query_variant_id": self._query_id, "data": {"windowing": {"limit": self.count + 1}}}
        self._project.call(api, "/queries/revisions/commit", {"query_revision": body})
        self.count += 1
        ran = self._project.call(api, "/spans/query", {"query_ref": {"slug": "all"}}).body
        assert ran["count"] == self.count

    def check(self, api: ServerProcess) -> None:
        """Every commit is there, in its order and without a gap."""
        body = {"application_revisions": {"application_variant_id": self._variant_id}}
        found = self._project.call(api, "/applications/revisions/log", body).body["application_revisions"]
        versions = [(each["version"], each["data"]["parameters"]["number"]) for each in reversed(found)]
        assert versions == [(str(number), number) for number in range(self.count)]


def read_own_write(project: Project, writer: ServerProcess, reader: ServerProcess, name: str) -> None:
    """Send a span to one API and find it at the other, which waits for it."""
    coordinates = project.send(writer, [name])
    filtering = {"conditions": [{"field": "span_name", "value": name}]}
    found = project.call(reader, "/spans/query", {"filtering": filtering}, X_Clearspan_Wait_For=coordinates).body
    assert found["count"] == 1


@pytest.fixture
def deployed(
    kafka: Broker, http_empty_settings: FreshSettings, empty_postgres: Any, unique: str, tmp_path: Path
) -> Iterator[Deployment]:
    with deployment(kafka, http_empty_settings(), empty_postgres, unique, tmp_path) as deployed:
        yield deployed


@pytest.fixture
async def empty_postgres(postgres: PostgresServer) -> Any:
    return await postgres.fresh_database()


class Upgrade:
    """A deployment in which an old worker and an old API run, clients use them, and the first spans are stored."""

    def __init__(self, deployed: Deployment, new: Release) -> None:
        self.new = new
        assert deployed.imported_from(new) == {new.directory}
        assert deployed.command(THIS, "migrate").returncode == 0
        self.deployed = deployed
        self.old_worker, self.old_api = deployed.start(THIS, "ingest"), deployed.start(THIS, "serve")
        self.project = Project.create(self.old_api)
        self.feed, self.commits = FeedReader(self.project), Committer(self.project, self.old_api)
        self.others: list[str] = []
        """The names of spans that the producer has not sent."""

    def begin(self, producer: Producer) -> list[str]:
        """Store the first spans, and return their names; clients begin to read."""
        producer.has_sent(FIRST_SPANS)
        first = producer.sent[:FIRST_SPANS]
        until(lambda: self.feed.read(self.old_api) > 0, what="the feed has begun")
        until(
            lambda: set(first) <= set(self.project.walk([self.old_api], limit=1_000)), what="the first spans are stored"
        )
        self.commits.commit(self.old_api)
        return first

    def migrate(self) -> None:
        """Migrate while the old processes work, and use them afterwards."""
        assert self.deployed.command(self.new, "migrate").returncode == 0
        self.commits.commit(self.old_api)
        self.new_worker, self.new_api = self.deployed.start(self.new, "ingest"), self.deployed.start(self.new, "serve")
        later_project = Project.create(self.old_api)
        assert later_project.page(self.new_api, {}) == ([], "")

    def check_refused_migration(self) -> None:
        """The old release does not migrate newer tables."""
        refused = self.deployed.command(THIS, "migrate")
        assert refused.returncode == 1
        assert refused.stderr.rstrip().endswith("the program is older than the database.")

    def use_both(self, producer: Producer) -> None:
        """Use each cursor and coordinate of one release at the other, while both store spans."""
        for api in (self.new_api, self.old_api, self.new_api):
            producer.has_sent(len(producer.sent) + 2 * SPANS_OF_A_RECORD)
            until(partial(self._is_news, api), what="the feed goes on")
            self.commits.commit(api)
        for writer, reader in permutations([self.old_api, self.new_api]):
            name = f"{FAR_NUMBER + len(self.others)}"
            read_own_write(self.project, writer, reader, name)
            self.others.append(name)

    def restart_old(self, producer: Producer) -> None:
        """An old worker dies and comes back, an old API is stopped and comes back."""
        self.old_worker.end(signal.SIGKILL)
        self.old_worker.start()
        producer.use(self.new_api)
        assert self.old_api.end() == 0
        self.old_api.start()
        producer.use(self.old_api, self.new_api)
        producer.has_sent(len(producer.sent) + 4 * SPANS_OF_A_RECORD)

    def end_old(self, producer: Producer) -> None:
        """The old processes are drained, and the new ones go on."""
        producer.use(self.new_api)
        assert [self.old_worker.end(), self.old_api.end()] == [0, 0]
        self.commits.commit(self.new_api)
        producer.has_sent(len(producer.sent) + 4 * SPANS_OF_A_RECORD)

    def _is_news(self, api: ServerProcess) -> bool:
        return self.feed.read(api, wait_s=5) > 0


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_upgrade_loses_nothing_and_returns_nothing_twice(deployed: Deployment, tmp_path: Path) -> None:
    upgrade = Upgrade(deployed, next_release(tmp_path / "next"))
    project, feed = upgrade.project, upgrade.feed

    with producing(project, [upgrade.old_api]) as producer:
        first = upgrade.begin(producer)
        walked, cursor = project.page(upgrade.old_api, {"limit": 50})
        upgrade.migrate()
        producer.use(upgrade.old_api, upgrade.new_api)
        walked += project.walk([upgrade.new_api, upgrade.old_api], cursor=cursor)
        upgrade.check_refused_migration()
        upgrade.use_both(producer)
        upgrade.restart_old(producer)
        upgrade.end_old(producer)
    assert producer.failures == []
    everything = Counter(producer.sent + upgrade.others)

    def has_all() -> bool:
        feed.read(upgrade.new_api)
        return feed.names >= everything

    until(has_all, what="the feed has returned every span")
    assert feed.read(upgrade.new_api) == 0
    assert feed.names == everything
    assert Counter(project.walk([upgrade.new_api], limit=500)) == everything
    assert set(first) <= set(walked)
    assert max(Counter(walked).values()) == 1
    upgrade.commits.check(upgrade.new_api)
    assert upgrade.new_worker.end() == 0
