"""Rows of a table of routes: the request, its status, and what the response must contain."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from query_api.request.route import Route
from tests.support.history import HistoryClient

NO_ID = "00000000-0000-7000-8000-0000000000ff"
"""An id that does not exist."""


class Row(NamedTuple):
    """One request. ``$name`` in path, body and ``says`` stands for an id that is known later."""

    method: str
    path: str
    body: Any
    status: int
    says: str = ""

    @property
    def leaves_no_trace(self) -> bool:
        """Return whether the request writes nothing: it reads, or fails."""
        path = self.path.partition("?")[0].rstrip("/")
        return self.method == "GET" or path.endswith(("query", "log", "retrieve", "resolve")) or self.status != 200

    def is_of(self, route: Route) -> bool:
        """Return whether the row belongs to the route."""
        path = self.path.partition("?")[0].removeprefix("/api").removeprefix("/preview").rstrip("/")
        parts, wanted = path.split("/"), route.path.split("/")
        return (
            self.method == route.method
            and len(parts) == len(wanted)
            and all(
                want == part or (want.startswith("{") and (part.startswith("$") or part == NO_ID))
                for want, part in zip(wanted, parts, strict=True)
            )
        )


def post(path: str, body: Any, status: int, says: str = "") -> Row:
    """A row of POST."""
    return Row("POST", path, body, status, says)


def filled(text: str, names: Mapping[str, str]) -> str:
    """Replace ``$names`` in ``text`` by ids, the longest names first."""
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(f"${name}", names[name])
    return text


async def check(client: HistoryClient, row: Row, names: Mapping[str, str]) -> None:
    """Send the request of the row and compare the response."""
    body = None if row.body is None else json.loads(filled(json.dumps(row.body), names))
    status, answer = await client.try_call(row.method, filled(row.path, names), json=body)
    text = orjson.dumps(answer).decode()
    assert (status, filled(row.says, names) in text) == (row.status, True), text


def untested(routes: Sequence[Route], rows: Iterable[Row]) -> list[tuple[str, str]]:
    """Return the routes without a row."""
    return [(each.method, each.path) for each in routes if not any(row.is_of(each) for row in rows)]
