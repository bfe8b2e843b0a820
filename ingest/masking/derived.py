"""Mask the ``ag`` that was derived from a masked span, under its own paths (ADR 0021)."""

from __future__ import annotations

from typing import Any, Final

from common.masking import DROPPED, MaskPlace
from ingest.masking.planned import PlannedMask

AG: Final = "ag"
_COMPUTED: Final = frozenset({"type", "metrics"})
"""The members of ``ag`` that hold no content: names of types, and numbers."""


def masked_ag(ag: dict[str, Any], mask: PlannedMask) -> dict[str, Any]:
    """Return the canonical ``ag`` of a span, masked under its own paths; types and metrics stay.

    Its objects stay objects: a rule for ``ag.data`` masks each of their members.
    """
    content = {name: member for name, member in ag.items() if name not in _COMPUTED}
    masked = ag if mask.leaves(MaskPlace.ATTRIBUTES, AG, content) else _masked(ag, mask)
    if "references" in masked:
        references = {key: each for key, each in masked["references"].items() if isinstance(each, dict)}
        masked = {**masked, "references": references}
    return masked


def _masked(ag: dict[str, Any], mask: PlannedMask) -> dict[str, Any]:
    masked: dict[str, Any] = {}
    for name, member in ag.items():
        if name in _COMPUTED or mask.leaves(MaskPlace.ATTRIBUTES, AG, {name: member}):
            masked[name] = member
        elif isinstance(member, dict):
            masked[name] = mask.attributes(MaskPlace.ATTRIBUTES, member, f"{AG}.{name}")
        elif (kept := mask.member(MaskPlace.ATTRIBUTES, f"{AG}.{name}", member)) is not DROPPED:
            masked[name] = kept
    return masked
