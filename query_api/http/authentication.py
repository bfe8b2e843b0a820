"""Whose request it is, and what its key may do.

The key decides the project and the user, and the tenant to whose share the request counts (contract §2). Its scopes,
its requests a second and its requests at the same time are limited in each process of the API.

While authentication is off, what web pages send through the browser of somebody who runs Clearspan is rejected. Two
ways lead there. A page of another site sends a request to the address of the API: the browser says so. Or the name of
the site resolves to that address (DNS rebinding): then page and API are one site to the browser, and only the header
``Host`` still names the site.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from uuid import UUID

from multidict import MultiMapping
from yarl import URL

from common.errors import Forbidden, NotAdmin, Overloaded, Unauthorized
from common.fair_share import OWN_WORK, Tenant
from common.ids import DEFAULT_USER_ID
from common.postgres.keys import KeyOwner
from common.settings import Settings
from common.times import Clock
from query_api.request.context import ApiContext, KeyFinder
from query_api.request.route import NO_PROJECT, Access, Route

BUSY_S: Final = 1.0
"""After this a key that has all its requests running is asked to come back."""

BUCKETS_MAX: Final = 10_000
"""Keys with a limit of requests a second that a process remembers."""

_NOBODY: Final = KeyOwner(NO_PROJECT, DEFAULT_USER_ID)
_KEY_BYTES_MAX: Final = 512


async def owner_of(
    context: ApiContext,
    *,
    access: Access,
    headers: Mapping[str, str],
    query: MultiMapping[str],
    is_allowed_page: bool = False,
) -> KeyOwner:
    """Return the project and the user of a request (contract §2), which may be that of a page of an allowed origin.

    A key belongs to one project. While authentication is off, every request belongs to the default project and the
    default user, whatever its headers say. Raises ``Unauthorized``, or ``Unavailable`` if keys cannot be looked up.
    """
    authorization = headers.get("Authorization", "")
    if context.keys is None and access is not Access.PUBLIC:
        check_not_a_page(headers, allowed_hosts=context.settings.http.allowed_hosts, is_allowed=is_allowed_page)
    match access:
        case Access.PUBLIC:
            return _NOBODY
        case Access.OPERATOR if context.keys is None:
            return _NOBODY
        case Access.ADMIN | Access.OPERATOR:
            _check_admin(authorization, context.settings)
            return _NOBODY
        case Access.PROJECT if context.keys is None:
            return KeyOwner(context.settings.default_project_id, DEFAULT_USER_ID)
        case Access.PROJECT:
            if any(_names_no_project(text) for text in query.getall("project_id", [])):
                raise Unauthorized
            found = await context.keys.find(_key_text(authorization))
            if found is None:
                raise Unauthorized
            return found


def running(context: ApiContext, owner: KeyOwner) -> AbstractAsyncContextManager[None]:
    """Return the context in which a request runs, to be entered right after ``owner_of``.

    It raises ``Unauthorized`` when the key or the project of the request ends.
    """
    return nullcontext() if context.keys is None else context.keys.running(owner)


async def tenant_of(context: ApiContext, project_id: UUID) -> Tenant:
    """Return the tenant to whose share of resources a request counts; without a project it is the program itself."""
    if project_id == NO_PROJECT:
        return OWN_WORK
    has_neighbors = context.keys is not None and await context.keys.has_neighbors(project_id)
    return Tenant(project_id, has_neighbors, context.settings.query.queue_s)


def _check_admin(authorization: str, settings: Settings) -> None:
    scheme, _, key = authorization.partition(" ")
    expected = settings.admin_key.get_secret_value()
    is_right = hmac.compare_digest(key.strip().encode("utf-8", "replace"), expected.encode())
    if scheme.lower() != "access" or not expected or not is_right:
        raise NotAdmin


def _key_text(authorization: str) -> str:
    """Return the key of ``ApiKey <key>`` or of a bare key. Raises ``Unauthorized`` if the text cannot be a key."""
    words = authorization.split()
    if len(words) == 2 and words[0].lower() == "apikey":
        del words[0]
    if len(words) != 1 or not words[0].isascii() or len(words[0]) > _KEY_BYTES_MAX:
        raise Unauthorized
    return words[0]


def _names_no_project(text: str) -> bool:
    """Whether the text is ``null`` or the zero UUID: a client without a project must not get another's data (reference
    §12)."""
    if text == "null":
        return True
    try:
        return UUID(text) == NO_PROJECT
    except ValueError:
        return False


def ended_key(keys: KeyFinder, headers: Mapping[str, str]) -> KeyOwner | None:
    """Return the owner of the key of a request that was refused, if the key is revoked or has expired."""
    try:
        return keys.ended(_key_text(headers.get("Authorization", "")))
    except Unauthorized:
        return None


def check_scope(owner: KeyOwner, route: Route) -> None:
    """Raise ``Forbidden`` if the key lacks the scope of the route."""
    if route.access is not Access.PROJECT or route.scope in owner.scopes:
        return
    granted = ", ".join(f"`{scope}`" for scope in sorted(owner.scopes))
    raise Forbidden(f"{route.method} {route.path} needs a key with the scope `{route.scope}`; this key has {granted}.")


@dataclass(slots=True)
class _RequestsLeft:
    """What a key has left. It fills at its rate and holds what arrives in a second, at least one request."""

    requests: float
    at_s: float


@dataclass(slots=True)
class KeyLimits:
    """Counts the requests of keys with limits."""

    clock: Clock
    _running: Counter[UUID] = field(default_factory=Counter)
    _buckets: dict[UUID, _RequestsLeft] = field(default_factory=dict)

    @contextmanager
    def admitted(self, owner: KeyOwner) -> Iterator[None]:
        """Count a request of a key while inside. Raises ``Overloaded`` with the time to wait."""
        key_id = owner.key_id
        if key_id is None:
            yield
            return
        if owner.concurrent_max is not None and self._running[key_id] >= owner.concurrent_max:
            raise Overloaded(
                f"This key may run {owner.concurrent_max} requests at the same time.", retry_after_s=BUSY_S
            )
        if owner.requests_per_s is not None:
            self._take(key_id, owner.requests_per_s)
        self._running[key_id] += 1
        try:
            yield
        finally:
            self._running[key_id] -= 1
            if not self._running[key_id]:
                del self._running[key_id]

    def _take(self, key_id: UUID, per_s: float) -> None:
        now_s, size = self.clock.monotonic_s(), max(1.0, per_s)
        bucket = self._buckets.pop(key_id, None) or _RequestsLeft(size, now_s)
        bucket.requests = min(size, bucket.requests + (now_s - bucket.at_s) * per_s)
        bucket.at_s = now_s
        while len(self._buckets) >= BUCKETS_MAX:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[key_id] = bucket
        if bucket.requests < 1:
            raise Overloaded(
                f"This key may send {per_s:g} requests a second.", retry_after_s=(1 - bucket.requests) / per_s
            )
        bucket.requests -= 1


SETTING: Final = "CLEARSPAN_HTTP__ALLOWED_HOSTS"


def check_not_a_page(headers: Mapping[str, str], *, allowed_hosts: str, is_allowed: bool = False) -> None:
    """Raise ``Forbidden`` for a request of another web site, unless its origin ``is_allowed``. ``allowed_hosts`` are
    further names of the API, separated by commas.

    Browsers set ``Sec-Fetch-Site`` and ``Host``, and pages cannot change them; programs do not send the first.
    """
    if not is_allowed and headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
        raise Forbidden("While authentication is off, requests from other web sites are not accepted.")
    host = headers.get("Host", "")
    if host and not _is_own(_name_of(host), allowed_hosts):
        raise Forbidden(
            "While authentication is off, the host of a request must be an IP address, localhost or a name in"
            f" {SETTING}; got '{host[:200]}'."
        )


def _name_of(host: str) -> str:
    """Return the host without its port, in lower case; empty if it cannot be read."""
    try:
        url = URL(f"http://{host}")
        return (url.host or "").rstrip(".").lower() if url.user is None else ""
    except ValueError:
        return ""


def _is_own(name: str, allowed_hosts: str) -> bool:
    """Whether no name server leads a page of another site here: an address, a name of loopback, or an allowed one."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    if name in {allowed.strip().rstrip(".").lower() for allowed in allowed_hosts.split(",")} - {""}:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
