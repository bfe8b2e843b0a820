"""The actions of ``clearspan subscriptions`` and ``clearspan alerts`` that are the same; ``noun`` says which."""

from __future__ import annotations

from typing import Any, Final

from clearspan.client.alerts import ALERTS
from clearspan.client.connection import ApiClient, on_api
from clearspan.client.output import console, note, print_objects, print_table, safe
from clearspan.client.subscriptions import SUBSCRIPTIONS
from clearspan.console import confirm, fail
from common.settings import Settings

_KINDS: Final = {kind.noun: kind for kind in (SUBSCRIPTIONS, ALERTS)}


@on_api
async def list_all(api: ApiClient, *, noun: str, status: str | None, as_json: bool, breaching: bool = False) -> int:
    """Print those in a state. ``breaching``, for alerts: only those with a group in breach."""
    kind = _KINDS[noun]
    wanted = {**({} if status is None else {"status": status}), **({"breaching": True} if breaching else {})}
    found = (await api.post(f"{kind.path}query", {noun: wanted}))[f"{noun}s"]
    if as_json:
        print_objects(found)
    elif found:
        print_table(kind.columns, map(kind.row, found))
    else:
        note(f"There is no {noun}.")
    return 0


@on_api
async def show(api: ApiClient, *, noun: str, slug: str, as_json: bool) -> int:
    """Print one and its state."""
    kind = _KINDS[noun]
    return kind.print_one(await api.get(kind.path_of(slug)), as_json=as_json)


@on_api
async def control(api: ApiClient, *, noun: str, action: str, slug: str, as_json: bool) -> int:
    """Pause or resume one, or skip what it is sending; print it."""
    kind = _KINDS[noun]
    return kind.print_one(await api.post(kind.path_of(slug, f"/{action}"), {}), as_json=as_json)


@on_api
async def test(api: ApiClient, *, noun: str, slug: str, as_json: bool) -> int:
    """Send a test span or message; return 1 if the target does not take it."""
    kind = _KINDS[noun]
    result = (await api.post(kind.path_of(slug, "/test"), {}))["delivery"]
    if as_json:
        print_objects([result])
        return 0 if result["delivered"] else 1
    if not result["delivered"]:
        return fail(f"the target did not take the test {kind.sends}: {result['reason']}")
    console().print(safe(f"The target took the test {kind.sends} in {result['duration_ms']:.0f} ms."))
    return 0


def delete(settings: Settings, *, noun: str, slug: str, yes: bool, **options: Any) -> int:
    """Delete one, after asking."""
    if not yes and not confirm(f"Delete the {noun} {slug}? [y/N] "):
        return fail("nothing was deleted.")
    return _delete(settings, noun=noun, slug=slug, **options)


@on_api
async def _delete(api: ApiClient, *, noun: str, slug: str, as_json: bool) -> int:
    answer = await api.request("DELETE", _KINDS[noun].path_of(slug))
    if as_json:
        print_objects([answer[noun]])
    return 0
