"""The requests that subscriptions and alerts have in common: create, query, get, edit, delete, pause, resume.

A path names one by its id or its slug. What is different is a ``ResourceKind``, a frozen description.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar
from uuid import UUID, uuid4

from pydantic import BaseModel

from common.errors import InvalidInput, NotFound, ServiceError
from common.fair_share import FairShare
from common.postgres.pool import UniqueViolation
from common.settings import Settings
from common.times import format_us
from query_api.delivery.schemas import SpanSelection, TestDelivery, TestDeliveryResponse
from query_api.delivery.selection import find_revision, reference_to_store
from query_api.delivery.stored import ResourceTable, Rows, Stored, Values
from query_api.delivery.targets.models import TargetIn, public_members
from query_api.delivery.targets.opening import (
    kept_secrets,
    refuse_forbidden,
    secrets_to_store,
    unreachable_warning,
)
from query_api.delivery.targets.target import (
    MessageTarget,
    RejectedSpans,
    Target,
    TargetRefused,
    TargetUnavailable,
)
from query_api.filter.parse import FilteringModel
from query_api.registry.checks import lineage_of, references_of
from query_api.registry.kinds import QUERIES
from query_api.registry.values import Revision
from query_api.request.context import ApiContext, database_of
from query_api.request.errors import SlugTaken
from query_api.request.json_body import json_response
from query_api.request.route import Handler, Request, Response, Route

TESTS_MAX: Final = 16
"""Tests that run at the same time in one process."""

_tests: Final = FairShare("test deliveries", TESTS_MAX)


async def test_response(
    context: ApiContext,
    target: Target | MessageTarget,
    id_: str,
    send: Callable[[], Awaitable[RejectedSpans | None]],
) -> Response:
    """Send to a target when it is the turn of this test, close it, and return what happened."""
    async with _tests.place(timeout_s=context.settings.query.queue_s):
        began_s = context.clock.monotonic_s()
        try:
            reason = await _failure(send)
        finally:
            await target.close()
        duration_ms = (context.clock.monotonic_s() - began_s) * 1_000
    result = TestDelivery(batch_id=id_, delivered=reason is None, reason=reason, duration_ms=round(duration_ms, 1))
    return json_response(TestDeliveryResponse(count=1, delivery=result))


async def _failure(send: Callable[[], Awaitable[RejectedSpans | None]]) -> str | None:
    try:
        rejected = await send()
    except (TargetUnavailable, TargetRefused) as exc:
        return exc.reason
    except ServiceError as exc:
        return exc.public_message
    return None if rejected is None else f"The target rejected the span: {rejected.reason}"


def test_span(now_us: int) -> dict[str, Any]:
    """Return a span object as ``/spans/query`` returns them, which begins and ends now."""
    now = format_us(now_us)
    return {
        "created_at": now,
        "trace_id": uuid4().hex,
        "span_id": uuid4().hex[:16],
        "trace_type": "invocation",
        "span_type": "task",
        "span_kind": "SPAN_KIND_INTERNAL",
        "span_name": "clearspan.test",
        "start_time": now,
        "end_time": now,
        "start_time_unix_nano": str(now_us * 1_000),
        "end_time_unix_nano": str(now_us * 1_000),
        "status_code": "STATUS_CODE_OK",
        "attributes": {},
    }


PAUSED_BY_USER: Final = "Paused by request."

R = TypeVar("R", bound=Stored)


class StoredTarget(NamedTuple):
    """A target as it is stored. ``made`` is the secret that was made for it just now, if one was."""

    members: Mapping[str, Any]
    secrets: Mapping[str, Any]
    made: str | None = None


class Bodies(NamedTuple):
    """The models of a resource: requests, then responses."""

    create: type[BaseModel]
    query: type[BaseModel]
    edit: type[BaseModel]
    one: type[BaseModel]
    many: type[BaseModel]


@dataclass(frozen=True, slots=True)
class ResourceKind(Generic[R]):
    """What subscriptions and alerts do in their own way.

    ``noun`` is the member of the body, and what messages call one; ``a_noun`` has its article.
    """

    noun: str
    a_noun: str
    table: ResourceTable[R]
    bodies: Bodies
    max_count: Callable[[Settings], int]
    define: Callable[[Request, Any, R | None], Awaitable[Values]]
    """Returns the further columns of one that is sent, to create or to edit the one that is given."""

    on_move: Values
    """What an edit of the filter or the target sets, too."""

    check_target: Callable[[TargetIn], None]
    check_filter: Callable[[Request, FilteringModel], Awaitable[object]]
    check_revision: Callable[[Revision], Awaitable[object]]
    open_target: Callable[[Request, R, Mapping[str, Any]], Target | MessageTarget]
    show: Callable[[Request, R, str | None], Awaitable[BaseModel]]
    """Returns what a response holds; the text is a secret that was made for the target just now."""

    show_all: Callable[[Request, list[R], Any], Awaitable[list[BaseModel]]]
    """Returns what a response holds of those that match."""

    def rows(self, request: Request) -> Rows[R]:
        """Return the rows of the project."""
        return Rows(self.table, database_of(request.context), request.project_id, request.user_id)

    async def named(self, request: Request) -> R:
        """Return what the path names. Raises ``NotFound``."""
        text = request.path[f"{self.noun}_id"]
        if "\0" in text:
            return self.existing(request, None)
        try:
            key: UUID | str = UUID(text)
        except ValueError:
            key = text
        return self.existing(request, await self.rows(request).find(key))

    def existing(self, request: Request, row: R | None) -> R:
        """Return a row. Raises ``NotFound`` for ``None``."""
        if row is None:
            raise NotFound(f"There is no {self.noun} '{request.path[f'{self.noun}_id'][:200]}' in this project.")
        return row

    async def response(
        self, request: Request, row: R, *, secret: str | None = None, warning: str | None = None
    ) -> Response:
        """Return a response of one."""
        members = {self.noun: await self.show(request, row, secret), "warning": warning}
        return json_response(self.bodies.one(count=1, **members))


async def create(resource: ResourceKind[R], request: Request) -> Response:
    """Create one. It begins at once; a target that cannot be reached now is a warning."""
    noun, sent = resource.noun, getattr(request.body, resource.noun)
    _refuse_id_as_slug(sent.slug, noun)
    further = await resource.define(request, sent, None)
    selection = await _selection_to_store(resource, request, sent)
    target = await _target_to_store(resource, request, sent.target)
    values = {"slug": sent.slug, "name": sent.name, "selection": selection, **further}
    values |= {"target": target.members, "secrets": target.secrets}
    rows = resource.rows(request)
    try:
        created = await rows.create(values, max_count=resource.max_count(request.context.settings))
    except UniqueViolation as violation:
        raise SlugTaken(sent.slug) from violation
    warning = await unreachable_warning(resource.open_target(request, created, target.secrets))
    return await resource.response(request, created, secret=target.made, warning=warning)


async def query(resource: ResourceKind[R], request: Request) -> Response:
    """Return those that match, oldest first."""
    wanted = getattr(request.body, resource.noun)
    shown = await resource.show_all(request, await resource.rows(request).all(), wanted)
    members: dict[str, Any] = {resource.table.name: shown}
    return json_response(resource.bodies.many(count=len(shown), **members))


async def get(resource: ResourceKind[R], request: Request) -> Response:
    """Return one with its state."""
    return await resource.response(request, await resource.named(request))


async def edit(resource: ResourceKind[R], request: Request) -> Response:
    """Change the given members of one."""
    sent, found = getattr(request.body, resource.noun), await resource.named(request)
    if sent.id not in (None, found.id):
        raise InvalidInput(f"The id in the path and the id in the body do not match: '{found.id}', '{sent.id}'.")
    rows = resource.rows(request)
    further = await resource.define(request, sent, found)
    selection = await _selection_to_store(resource, request, sent) if sent.selecting() else found.selection
    target = before = StoredTarget(found.target, await rows.secrets(found.id))
    if sent.target is not None:
        target = await _target_to_store(resource, request, sent.target, before=before)
    is_moved = selection != found.selection or target._replace(made=None) != before
    name = sent.name if "name" in sent.model_fields_set else found.name
    values = {"name": name, "selection": selection, "target": target.members, "secrets": target.secrets, **further}
    changed = resource.existing(
        request, await rows.change(found.id, {**values, **(resource.on_move if is_moved else {})})
    )
    warning = None
    if sent.target is not None:
        warning = await unreachable_warning(resource.open_target(request, changed, target.secrets))
    return await resource.response(request, changed, secret=target.made, warning=warning)


async def delete(resource: ResourceKind[R], request: Request) -> Response:
    """Delete one, and return it as it was."""
    found = await resource.named(request)
    shown = await resource.response(request, found)
    resource.existing(request, await resource.rows(request).delete(found.id))
    return shown


async def pause(resource: ResourceKind[R], request: Request) -> Response:
    """Pause one."""
    found = await resource.named(request)
    changed = await resource.rows(request).pause(found.id, reason=PAUSED_BY_USER)
    return await resource.response(request, resource.existing(request, changed))


async def resume(resource: ResourceKind[R], request: Request) -> Response:
    """Resume one."""
    found = await resource.named(request)
    return await resource.response(request, resource.existing(request, await resource.rows(request).resume(found.id)))


def routes_of(
    resource: ResourceKind[R], texts: Mapping[str, str], *, skip: Handler, skipped: str, test: Handler, sends: str
) -> list[Route]:
    """Return the routes of a resource. ``texts`` describe the common ones, ``skipped`` and ``sends`` sum up what
    ``skip`` passes and ``test`` sends.
    """
    plural, a_noun, bodies = resource.table.name, resource.a_noun, resource.bodies
    one, tag = f"/{plural}/{{{resource.noun}_id}}", plural.capitalize()

    def route(method: str, path: str, act: Any, summary: str, **about: Any) -> Route:
        response = about.pop("response", bodies.one)
        text = texts[act.__name__]
        return Route(method, path, partial(act, resource), summary, tag, response, description=text, **about)

    return [
        route("POST", f"/{plural}", create, f"Create {a_noun}.", body=bodies.create, body_required=True),
        route("POST", f"/{plural}/query", query, f"Query {plural}.", response=bodies.many, body=bodies.query),
        route("GET", one, get, f"Get {a_noun} with its state.", refused_statuses=(404,)),
        route("PUT", one, edit, f"Edit {a_noun}.", body=bodies.edit, body_required=True),
        route("DELETE", one, delete, f"Delete {a_noun}.", refused_statuses=(404,)),
        route("POST", f"{one}/pause", pause, f"Pause {a_noun}.", refused_statuses=(404,)),
        route("POST", f"{one}/resume", resume, f"Resume {a_noun}.", refused_statuses=(404,)),
        Route("POST", f"{one}/skip", skip, f"Skip {skipped}.", tag, bodies.one, refused_statuses=(404, 409)),
        Route("POST", f"{one}/test", test, f"Send {sends} to the target.", tag, TestDeliveryResponse,
              refused_statuses=(404,)),
    ]  # fmt: skip


def _refuse_id_as_slug(slug: str, noun: str) -> None:
    try:
        UUID(slug)
    except ValueError:
        return
    raise InvalidInput(f"{noun}.slug: an id is not a slug, because paths take both; allowed: another text.")


async def _selection_to_store(resource: ResourceKind[R], request: Request, sent: SpanSelection) -> Mapping[str, Any]:
    """Return what to store of the filter or the reference.

    Raises ``InvalidInput`` if several are given or a reference is insufficient, ``NotFound`` if it names nothing, and
    what the checks raise.
    """
    names = sent.selecting()
    if len(names) > 1:
        raise InvalidInput(f"{resource.noun}.{names[1]}: allowed is one of {', '.join(names)}, not several.")
    if not names:
        return {}
    if sent.filtering is not None:
        await resource.check_filter(request, sent.filtering)
        return {"filtering": sent.filtering.model_dump(mode="json", exclude_none=True)}
    references = references_of(sent.query_ref, None, sent.query_revision_ref)
    found = await find_revision(lineage_of(request, QUERIES.kind), references)
    await resource.check_revision(found)
    return reference_to_store(found, is_pinned=sent.query_revision_ref is not None)


async def _target_to_store(
    resource: ResourceKind[R], request: Request, sent: TargetIn, *, before: StoredTarget | None = None
) -> StoredTarget:
    """Return what to store of a target; it keeps the secrets of a target ``before`` of the same kind.

    Raises ``InvalidInput`` for a target that this installation does not allow, and for a missing secret.
    """
    at = f"{resource.noun}.target"
    resource.check_target(sent)
    await refuse_forbidden(sent, settings=request.context.settings, project_id=request.project_id, at=at)
    kept = {} if before is None else kept_secrets(sent, before.members, before.secrets, at=at)
    secrets, made = secrets_to_store(sent, kept, at=at)
    return StoredTarget(public_members(sent), secrets, made)
