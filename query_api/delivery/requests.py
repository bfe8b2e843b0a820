"""What the requests about subscriptions and alerts share: names in paths, selections of spans, targets.

A path names a subscription or an alert by its id or its slug. ``noun`` is ``subscription`` or ``alert``: the member of
the body, and what messages call it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from common.errors import InvalidInput, NotFound
from query_api.delivery.schemas import SpanSelection
from query_api.delivery.stored_selection import find_revision, reference_to_store
from query_api.delivery.targets.models import TargetIn, public_members
from query_api.delivery.targets.opening import kept_secrets, refuse_forbidden, secrets_to_store
from query_api.filter.parse import FilteringModel
from query_api.registry.checks import lineage_of, references_of
from query_api.registry.kinds import QUERIES
from query_api.registry.values import Revision
from query_api.request.route import Request

Found = TypeVar("Found")

PAUSED_BY_USER: Final = "Paused by request."


class StoredTarget(NamedTuple):
    """A target as it is stored. ``made`` is the secret that was made for it just now, if one was."""

    members: Mapping[str, Any]
    secrets: Mapping[str, Any]
    made: str | None = None


async def find_named(request: Request, noun: str, find: Callable[[UUID | str], Awaitable[Found | None]]) -> Found:
    """Return what the path names. ``find`` takes an id or a slug. Raises ``NotFound``."""
    text = request.path[f"{noun}_id"]
    if "\0" in text:
        return existing(request, noun, None)
    try:
        key: UUID | str = UUID(text)
    except ValueError:
        key = text
    return existing(request, noun, await find(key))


def existing(request: Request, noun: str, found: Found | None) -> Found:
    """Return what was found. Raises ``NotFound`` for ``None``."""
    if found is None:
        raise NotFound(f"There is no {noun} '{request.path[f'{noun}_id'][:200]}' in this project.")
    return found


def refuse_id_as_slug(slug: str, noun: str) -> None:
    """Raise ``InvalidInput`` for a slug that is an id."""
    try:
        UUID(slug)
    except ValueError:
        return
    raise InvalidInput(f"{noun}.slug: an id is not a slug, because paths take both; allowed: another text.")


def refuse_other_id(found_id: UUID, body_id: UUID | None) -> None:
    """Raise ``InvalidInput`` if the body has another id than what the path names."""
    if body_id is not None and body_id != found_id:
        raise InvalidInput(f"The id in the path and the id in the body do not match: '{found_id}', '{body_id}'.")


async def selection_to_store(
    request: Request,
    noun: str,
    sent: SpanSelection,
    *,
    check_filter: Callable[[FilteringModel], Awaitable[object]],
    check_revision: Callable[[Revision], Awaitable[object]],
) -> Mapping[str, Any]:
    """Return what to store of the filter or the reference.

    Raises ``InvalidInput`` if several are given or a reference is insufficient, ``NotFound`` if it names nothing, and
    what the checks raise.
    """
    names = sent.selecting()
    if len(names) > 1:
        raise InvalidInput(f"{noun}.{names[1]}: allowed is one of {', '.join(names)}, not several.")
    if not names:
        return {}
    if sent.filtering is not None:
        await check_filter(sent.filtering)
        return {"filtering": sent.filtering.model_dump(mode="json", exclude_none=True)}
    references = references_of(sent.query_ref, None, sent.query_revision_ref)
    found = await find_revision(lineage_of(request, QUERIES.kind), references)
    await check_revision(found)
    return reference_to_store(found, is_pinned=sent.query_revision_ref is not None)


async def target_to_store(
    request: Request, noun: str, sent: TargetIn, *, before: StoredTarget | None = None
) -> StoredTarget:
    """Return what to store of a target; it keeps the secrets of a target ``before`` of the same kind.

    Raises ``InvalidInput`` for a target that this installation does not allow, and for a missing secret.
    """
    at = f"{noun}.target"
    await refuse_forbidden(sent, settings=request.context.settings, project_id=request.project_id, at=at)
    kept = {} if before is None else kept_secrets(sent, before.members, before.secrets, at=at)
    secrets, made = secrets_to_store(sent, kept, at=at)
    return StoredTarget(public_members(sent), secrets, made)
