"""Revisions that embed others, and what resolving them returns or says."""

from __future__ import annotations

from typing import Any, Final

from tests.support.history import HistoryClient

RESOLVE: Final = "/applications/revisions/resolve"
RETRIEVE: Final = "/applications/revisions/retrieve"


async def revision(client: HistoryClient, slug: str, revision_slug: str, data: Any) -> Any:
    """Return the first revision of a new application."""
    application = await client.application(slug)
    variant = await client.variant(application["id"], f"{slug}.main")
    return await client.commit(variant["id"], slug=revision_slug, data=data)


def embed(path: str | None = "parameters.greeting", /, **references: Any) -> Any:
    """Return a reference in the object spelling."""
    selector = {} if path is None else {"@ag.selector": {"path": path}}
    return {"@ag.embed": {"@ag.references": references or {"application_revision": {"slug": "x-v1"}}, **selector}}


async def resolved(client: HistoryClient, parameters: Any, **options: Any) -> tuple[Any, Any]:
    """Return the parameters with references resolved, and ``resolution_info``."""
    response = await client.post(RESOLVE, {"application_revision": {"data": {"parameters": parameters}}, **options})
    return response["application_revision"]["data"]["parameters"], response["resolution_info"]


async def refused(client: HistoryClient, parameters: Any, **options: Any) -> str:
    """Return why the references in the parameters are not resolved."""
    body = {"application_revision": {"data": {"parameters": parameters}}, **options}
    detail: str = (await client.post(RESOLVE, body, status=400))["detail"]
    return detail
