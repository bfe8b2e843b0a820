"""Names of repaired places without the keys that masking hides (``Span.repaired``)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Final

from common.masking import Mask, MaskPlace

_MEMBERS: Final[Mapping[str, MaskPlace]] = {
    "attributes": MaskPlace.ATTRIBUTES,
    "events.attributes": MaskPlace.EVENTS,
    "links.attributes": MaskPlace.LINKS,
    "resource.attributes": MaskPlace.RESOURCE,
    "scope.attributes": MaskPlace.SCOPE,
}
_CUT: Final = "…"
"""The end of a name that was cut: a rule might find something in the whole of its last key."""


def masked_place(place: str, mask: Mask) -> str | None:
    """Return the name of a place up to the first key that the rules change; ``None`` if they remove it.

    A key may hold dots.
    """
    member = next((member for member in _MEMBERS if place.startswith(f"{member}.")), None)
    if member is None:
        return mask.text_anywhere(place)
    steps = place.removeprefix(f"{member}.").split(".")
    for begin, end in combinations(range(len(steps) + 1), 2):
        key = ".".join(steps[begin:end])
        shown = mask.key(_MEMBERS[member], ".".join(steps[:end]), key)
        if shown != key:
            return None if shown is None else ".".join([member, *steps[:begin], shown])
    return ".".join([member, *(steps[:-1] if steps[-1].endswith(_CUT) else steps)])
