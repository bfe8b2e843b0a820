"""A producer that numbers its spans, and a reader of the feed, over the APIs of a deployment."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.support.deployment import Project, ServerProcess, until

SPANS_OF_A_RECORD: Final = 10
PAUSE_S: Final = 0.05
"""Between two records: a busy machine has to read everything that is sent."""


class Producer(threading.Thread):
    """Sends spans that are numbered from 0, through each of ``apis`` in turn, until ``stop``."""

    def __init__(self, project: Project, apis: list[ServerProcess]) -> None:
        super().__init__(daemon=True)
        self.sent: list[str] = []
        """The names of acknowledged spans."""
        self.failures: list[str] = []
        self._project = project
        self._apis = apis
        self._sending = threading.Lock()
        self._is_over = threading.Event()

    def use(self, *apis: ServerProcess) -> None:
        """Send to these from now on, as a load balancer would; return when the last request to others has ended."""
        with self._sending:
            self._apis = list(apis)

    def run(self) -> None:
        for turn in itertools.count():
            if self._is_over.wait(PAUSE_S):
                return
            names = [f"{len(self.sent) + number}" for number in range(SPANS_OF_A_RECORD)]
            try:
                with self._sending:
                    self._project.send(self._apis[turn % len(self._apis)], names)
            except (AssertionError, OSError) as failed:
                self.failures.append(str(failed))
                return
            self.sent += names

    def has_sent(self, count: int) -> None:
        """Wait until so many spans are acknowledged, or one has failed."""
        until(lambda: len(self.sent) >= count or bool(self.failures), what=f"{count} spans are sent")

    def stop(self) -> None:
        self._is_over.set()
        self.join()


@contextmanager
def producing(project: Project, apis: list[ServerProcess]) -> Iterator[Producer]:
    producer = Producer(project, apis)
    producer.start()
    try:
        yield producer
    finally:
        producer.stop()


class FeedReader:
    """A program that follows the feed through any API."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.cursor = ""
        self.names: Counter[str] = Counter()

    def read(self, api: ServerProcess, *, wait_s: int = 0) -> int:
        """Read one page; return how many spans it has."""
        at = {"next": self.cursor} if self.cursor else {}
        names, self.cursor = self._project.page(api, {"by": "created_at", "limit": 200, "wait_s": wait_s, **at})
        self.names.update(names)
        return len(names)
