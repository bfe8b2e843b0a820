"""A client that commits revisions while Postgres is away: what was acknowledged is there, once, with its version.

Whole revisions are one statement in Postgres; changes of the newest revision are a transaction of several.
"""

from __future__ import annotations

import threading
from typing import Final
from uuid import uuid4

from tests.faults.client import ApiClient

WRITERS: Final = 3


class Committer:
    """Commits to one variant from ``WRITERS`` threads until ``finish``; a failed commit is sent again."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        application = client.ask("/applications/", {"application": {"slug": f"a{uuid4().hex}"}})["application"]
        variant = {"application_id": application["id"], "slug": f"v{uuid4().hex}"}
        self._variant_id = client.ask("/applications/variants/", {"application_variant": variant})[
            "application_variant"
        ]["id"]
        self._acknowledged: dict[int, str] = {}
        self._stopped = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(writer,), daemon=True) for writer in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def finish(self) -> list[str]:
        """Stop, and return what is wrong with the history."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        body = {"application_revisions": {"application_variant_id": self._variant_id}}
        revisions = self._client.ask("/applications/revisions/log", body)["application_revisions"]
        stored = {int(each["version"]): (each.get("data") or {}).get("parameters", {}).get("n") for each in revisions}
        wrong = []
        if sorted(stored) != list(range(len(revisions))):
            wrong.append(f"versions are not consecutive: {sorted(stored)}")
        wrong += [
            f"commit {number} was acknowledged as version {version}, which holds {stored.get(int(version))}"
            for number, version in self._acknowledged.items()
            if stored.get(int(version)) != number
        ]
        if not self._acknowledged:
            wrong.append("no commit was acknowledged")
        return wrong

    def _run(self, writer: int) -> None:
        number = writer
        try:
            while not self._stopped.is_set():
                self._commit(number)
                number += WRITERS
        except BaseException as exc:  # noqa: BLE001 - raised again by `finish`
            self._failures.append(exc)

    def _commit(self, number: int) -> None:
        parameters = {"parameters": {"n": number}}
        content = {"data": parameters} if number % 2 else {"delta": {"set": parameters}}
        commit = {"application_variant_id": self._variant_id, **content}
        made = self._client.ask("/applications/revisions/commit", {"application_revision": commit})
        self._acknowledged[number] = made["application_revision"]["version"]
