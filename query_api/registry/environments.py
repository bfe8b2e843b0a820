"""Environments as a kind of history: what is deployed under which key (reference ``applications-api`` §7.5 and §7.6).

A deployment is a revision of the environment that refers to a revision of an application. So environments have a
history like everything else, which says what was deployed when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from query_api.registry.checks import path_id
from query_api.registry.handlers import lineage_of
from query_api.registry.kinds import Delta, FlagsFilter, History, RevisionData, RevisionFlags, Sample
from query_api.registry.labels import ENVIRONMENTS
from query_api.registry.responses import one_response, simple_members
from query_api.registry.values import Header
from query_api.request.json_body import Listed, Named
from query_api.request.references import ReferenceIn, Text
from query_api.request.route import Request, Response

Data: TypeAlias = Mapping[str, Any]

Deployment: TypeAlias = Named[Text, ReferenceIn]
"""References to one deployed revision: ``application``, ``application_variant``, ``application_revision``."""

Deployments: TypeAlias = Named[Annotated[Text, Field(min_length=1)], Deployment]
"""What is deployed, by key. The default key is the slug of the application, followed by ``.revision``."""


class EnvironmentData(RevisionData):
    """What a revision of an environment holds."""

    references: Deployments | None = None


class EnvironmentDelta(Delta):
    """A change of the newest references, key by key."""

    set: Deployments | None = Field(None, description="References to deploy under these keys; they replace older ones.")
    remove: Listed[Text] | None = Field(None, description="Keys to remove.")


class EnvironmentFlags(RevisionFlags):
    """Flags of an environment."""

    is_guarded: bool | None = Field(
        None, description="Set by `guard` and `unguard`. A mark for people: it forbids nothing."
    )


class EnvironmentFlagsFilter(EnvironmentFlags, FlagsFilter):
    """Flags in a query: an unknown one is rejected."""


def deployments_of(data: Data) -> Mapping[str, Any]:
    """Return the references by key."""
    references: Mapping[str, Any] = data.get("references") or {}
    return references


def with_deployments(data: Data, added: Mapping[str, Any], *, removed: Iterable[str] = ()) -> dict[str, Any]:
    """Return the data with ``added`` under its keys, and without the keys ``removed``."""
    gone = frozenset(removed)
    references = {key: value for key, value in {**deployments_of(data), **added}.items() if key not in gone}
    return {**data, "references": references}


def changed_by_key(data: Data, delta: Delta) -> dict[str, Any]:
    """Apply a delta to the newest data. Keys may hold dots, so they are not paths."""
    assert isinstance(delta, EnvironmentDelta)  # noqa: S101 - the bodies of environments have no other
    sent = delta.model_dump(mode="json", exclude_none=True)
    return with_deployments(data, sent.get("set", {}), removed=sent.get("remove", ()))


ENVIRONMENT: Final = History(
    labels=ENVIRONMENTS,
    sample=Sample(
        slug="production",
        name="Production",
        data={
            "references": {
                "faq-bot.revision": {"application": {"slug": "faq-bot"}, "application_revision": {"version": "1"}}
            }
        },
    ),
    data=EnvironmentData,
    delta=EnvironmentDelta,
    role_flags=EnvironmentFlags,
    revision_flags=EnvironmentFlags,
    flags_filter=EnvironmentFlagsFilter,
    change=changed_by_key,
)


async def guard(request: Request) -> Response:
    """Mark an environment as guarded. Responses show the mark; it forbids nothing."""
    return await _mark(request, is_guarded=True)


async def unguard(request: Request) -> Response:
    """Mark an environment as not guarded."""
    return await _mark(request, is_guarded=False)


async def _mark(request: Request, *, is_guarded: bool) -> Response:
    flags = ENVIRONMENT.artifact_flags({"is_guarded": is_guarded})
    async with lineage_of(request, ENVIRONMENTS.kind).transaction() as lineage:
        marked = await lineage.edit_artifact(path_id(request), header=Header(), flags=flags, folder_id=None)
        simple = None if marked is None else await lineage.find_simple(marked.id)
    return one_response(ENVIRONMENTS.artifact, None if simple is None else simple_members(simple))
