"""A kind of history, as its routes see it: its words, its flags and what its revisions hold.

``handlers.py`` serves every kind by such a value; the kinds themselves are in their own rooms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from common.errors import Unavailable
from query_api.registry.bodies import Delta, RevisionData
from query_api.registry.delta import changed
from query_api.registry.models import json_text
from query_api.registry.names import Names
from query_api.registry.store import Lineage, Owner
from query_api.registry.values import Kind
from query_api.request.route import Request


class Snapshot(NamedTuple):
    """What a commit stores of its data: the data itself and the flags that follow from it, as JSON texts."""

    data: str | None
    flags: str | None


class AskedFlags(NamedTuple):
    """Flags that are asked for, as JSON texts: those of the artifact, and those of the revision."""

    of_artifact: str | None = None
    of_revision: str | None = None


def _without_flags(data: RevisionData | None) -> Snapshot:
    return Snapshot(None if data is None else data.text(), None)


def _by_paths(data: Mapping[str, Any], delta: Delta) -> dict[str, Any]:
    return changed(data, merged=delta.set or {}, removed=delta.remove or ())


def _as_sent(flags: Mapping[str, bool]) -> str:
    return json_text(flags) or "{}"


def _of_artifact(flags: Mapping[str, bool]) -> AskedFlags:
    return AskedFlags(json_text(flags) if flags else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One kind. The functions besides ``data`` are those of a kind without flags of its own."""

    names: Names
    data: type[RevisionData]
    """What a revision of this kind may hold."""

    snapshot: Callable[[RevisionData | None], Snapshot] = _without_flags
    """What is stored of it. Raises ``InvalidInput`` for what has the shape and means nothing."""

    change: Callable[[Mapping[str, Any], Delta], dict[str, Any]] = _by_paths
    """The data that a delta makes of the head's."""

    artifact_flags: Callable[[Mapping[str, bool]], str] = _as_sent
    """The flags that an artifact gets, as JSON text, from those that were sent."""

    asked_flags: Callable[[Mapping[str, bool]], AskedFlags] = _of_artifact
    """Which rows are meant by flags in a question."""

    archives_with_variant: bool = False
    """Whether its simple routes archive an artifact together with its first variant."""


def lineage_of(request: Request, kind: Kind) -> Lineage:
    """The histories of the project that asks. Raises ``Unavailable`` where there is no Postgres."""
    if request.context.database is None:
        raise Unavailable("This process has no Postgres.")
    return Lineage(request.context.database, kind, Owner(request.project_id, request.user_id))


def first_given(sent: Any, members: tuple[str, ...]) -> UUID | None:
    """The first that is given of the spellings of an id."""
    ids = (getattr(sent, member, None) for member in members)
    return next((each for each in ids if each is not None), None)
