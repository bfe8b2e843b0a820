"""What a revision of an environment refers to, key by key, and what becomes of it by a change. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from query_api.registry.bodies import Delta
from query_api.registry.environments_models import EnvironmentDelta

Data: TypeAlias = Mapping[str, Any]


def deployments_of(data: Data) -> Mapping[str, Any]:
    """The references by their keys."""
    references: Mapping[str, Any] = data.get("references") or {}
    return references


def with_deployments(data: Data, added: Mapping[str, Any], *, removed: Iterable[str] = ()) -> dict[str, Any]:
    """The data in which ``added`` stands under its keys, and nothing under those that are ``removed``."""
    gone = frozenset(removed)
    references = {key: value for key, value in {**deployments_of(data), **added}.items() if key not in gone}
    return {**data, "references": references}


def changed_by_key(data: Data, delta: Delta) -> dict[str, Any]:
    """The data that a delta makes of the head's: keys may hold dots, so they are no paths."""
    assert isinstance(delta, EnvironmentDelta)  # noqa: S101 - the bodies of environments have no other
    sent = delta.model_dump(mode="json", exclude_none=True)
    return with_deployments(data, sent.get("set", {}), removed=sent.get("remove", ()))
