"""The flags of applications: the roles that are stored on the artifact, and those that follow from what a revision holds.

Source: reference ``applications-api`` §1.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from query_api.registry.applications_models import ApplicationData
from query_api.registry.bodies import RevisionData
from query_api.registry.history import AskedFlags, Snapshot

ROLES: Final = ("is_application", "is_evaluator", "is_snippet")
"""Of the artifact. The first is always true here."""

KEYS: Final[Mapping[str, str]] = {
    "is_llm": "llm",
    "is_hook": "hook",
    "is_code": "code",
    "is_match": "match",
    "is_feedback": "feedback",
    "is_agent": "agent",
    "is_skill": "skill",
}
"""Flags that say which key the URI has."""

PLATFORM: Final = "agenta"
CHAT: Final = "chat"
CUSTOM: Final = "custom"


def artifact_flags(sent: Mapping[str, bool]) -> str:
    """The three roles, as JSON text; those that were not sent are false, but for the first."""
    return _text({role: bool(sent.get(role, False)) for role in ROLES} | {"is_application": True})


def asked_flags(sent: Mapping[str, bool]) -> AskedFlags:
    """Roles are asked of the artifact, the rest of the revision. That it is an application is so anyway."""
    roles = {name: sent[name] for name in ROLES[1:] if name in sent}
    derived = {name: value for name, value in sent.items() if name not in ROLES}
    return AskedFlags(_text(roles) if roles else None, _text(derived) if derived else None)


def snapshot(data: RevisionData | None) -> Snapshot:
    """What a commit stores: the data, and the flags that follow from it."""
    assert data is None or isinstance(data, ApplicationData)  # noqa: S101 - the bodies of applications have no other
    return Snapshot(None if data is None else data.text(), _text(revision_flags(data or ApplicationData())))


def revision_flags(data: ApplicationData) -> dict[str, bool]:
    """The fourteen flags that follow from what a revision holds."""
    provider, kind, key = _uri_parts(data.uri)
    return {
        "is_managed": provider == PLATFORM,
        "is_custom": kind == CUSTOM,
        **{flag: key == word for flag, word in KEYS.items()},
        "is_chat": key == CHAT or _takes_messages(data),
        "has_url": data.url is not None,
        "has_script": data.script is not None,
        "has_handler": False,
        "is_static": False,
    }


def _uri_parts(uri: str | None) -> tuple[str | None, str | None, str | None]:
    """Provider, kind and key of ``provider:kind:key:version``. Shorter ones lack the version, then the provider, then the kind."""
    parts = uri.split(":") if uri else []
    match parts:
        case [provider, kind, key, *_]:
            return provider, kind, key
        case [kind, key]:
            return None, kind, key
        case [key]:
            return None, None, key
        case _:
            return None, None, None


def _takes_messages(data: ApplicationData) -> bool:
    inputs = data.schemas.inputs if data.schemas is not None else None
    properties = (inputs or {}).get("properties")
    return isinstance(properties, dict) and "messages" in properties


def _text(flags: Mapping[str, bool]) -> str:
    return orjson.dumps(flags).decode()
