"""Who asks, and so whose data a request sees (contract §2).

A key belongs to one project, and the key alone decides it. While authentication is off everything is the default
project and the default user, whatever a header says; a server that does so listens on loopback and nowhere else.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from uuid import UUID

from multidict import MultiMapping

from common.errors import NotAdmin, Unauthorized
from common.postgres.keys import KeyOwner
from common.project import DEFAULT_USER_ID
from common.settings import IllegalSettings, Settings
from common.tenant import OWN_WORK, Tenant
from query_api.request.context import ApiContext
from query_api.request.route import NO_PROJECT, Access

_NOBODY: Final = KeyOwner(NO_PROJECT, DEFAULT_USER_ID)
_KEY_BYTES_MAX: Final = 512


async def owner_of(
    context: ApiContext, *, access: Access, headers: Mapping[str, str], query: MultiMapping[str]
) -> KeyOwner:
    """The project and the user of a request. Raises ``Unauthorized``, or ``Unavailable`` when keys cannot be looked up now."""
    authorization = headers.get("Authorization", "")
    match access:
        case Access.PUBLIC:
            return _NOBODY
        case Access.ADMIN:
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


async def tenant_of(context: ApiContext, project_id: UUID) -> Tenant:
    """Whose share of the process a request uses. Routes that are not of a project are work of the program itself."""
    if project_id == NO_PROJECT:
        return OWN_WORK
    has_neighbours = context.keys is not None and await context.keys.has_neighbours(project_id)
    return Tenant(project_id, has_neighbours, context.settings.query.queue_s)


def refuse_open_door(settings: Settings) -> None:
    """Raises ``IllegalSettings`` where authentication is off and others than this machine could ask."""
    if settings.auth == "off" and not _is_loopback(settings.api_host):
        raise IllegalSettings(
            f"CLEARSPAN_AUTH=off listens on loopback alone, and CLEARSPAN_API_HOST is {settings.api_host}: "
            "set CLEARSPAN_AUTH=on or CLEARSPAN_API_HOST=127.0.0.1."
        )


def _check_admin(authorization: str, settings: Settings) -> None:
    scheme, _, key = authorization.partition(" ")
    wanted = settings.admin_key.get_secret_value()
    is_right = hmac.compare_digest(key.strip().encode("utf-8", "replace"), wanted.encode())
    if scheme.lower() != "access" or not wanted or not is_right:
        raise NotAdmin


def _key_text(authorization: str) -> str:
    """The key of ``ApiKey <key>`` or of a bare key. Raises ``Unauthorized`` for what cannot be one."""
    words = authorization.split()
    if len(words) == 2 and words[0].lower() == "apikey":
        del words[0]
    if len(words) != 1 or not words[0].isascii() or len(words[0]) > _KEY_BYTES_MAX:
        raise Unauthorized
    return words[0]


def _names_no_project(text: str) -> bool:
    """``null`` and the zero UUID: a client that lost its project must not be answered with another (reference §12)."""
    if text == "null":
        return True
    try:
        return UUID(text) == NO_PROJECT
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
