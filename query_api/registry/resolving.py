"""Replaces embedded references by their values (reference ``applications-api`` §7.4, contract §5).

One statement reads what all embeds of a level name, each part of a revision once. The embeds in these parts are the
next level. Then the value is assembled in memory. Levels, embeds and bytes are bounded, so a request can cause
neither unbounded reads nor unbounded memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from common.errors import InvalidInput
from common.fair_share import in_thread
from query_api.registry.embeds import (
    Embed,
    Unresolved,
    depth_of,
    described,
    holds_embed,
    may_embed,
    replaced,
    targets_in,
)
from query_api.registry.fields import JSON_DEPTH_MAX, json_text
from query_api.registry.responses import reference_members
from query_api.registry.schemas import ErrorPolicy
from query_api.registry.store import Lineage
from query_api.registry.values import Embedded, EmbedTarget

ERRORS_MAX: Final = 100
"""The errors that one response reports."""

PLACEHOLDER: Final = "<unresolved reference>"
"""Replaces an embed without a value if the policy is ``placeholder``."""

TOO_LARGE: Final = "with it the data would be too large"
TOO_MANY: Final = "there are more of them than max_embeds allows"


class EmbedLimits(NamedTuple):
    """The limits of resolving."""

    depth_max: int
    """The levels of embeds; those in the data itself are the first."""

    embeds_max: int
    bytes_max: int
    """The limit of the resolved data, and of all that is read for it."""


class Resolved(NamedTuple):
    """Resolved data as JSON text, and ``resolution_info``."""

    data: str
    info: Mapping[str, Any]


class _Part(NamedTuple):
    """A part of a revision that an embed names."""

    key: tuple[UUID, str]
    """The revision and the path: an embed in it that leads back to it is a cycle."""

    references: Mapping[str, Any]
    value: Any
    bytes_count: int
    depth: int


_Parts: TypeAlias = Mapping[EmbedTarget, _Part | str]
"""Parts by their targets. A text in place of a part says why there is none."""

_Ancestors: TypeAlias = frozenset[tuple[UUID, str]]
"""The parts that contain an embed, one within the other."""


async def resolve_embeds(
    lineage: Lineage, data: str, *, bounds: EmbedLimits, policy: ErrorPolicy, revision_id: UUID | None = None
) -> Resolved:
    """Replace every embed in ``data`` by what it names in the project. ``revision_id`` is the revision that holds the
    data.

    Raises ``InvalidInput`` if the data is too large, or if an embed has no value and the policy is ``exception``; the
    error names the place of the embed.
    """
    bytes_count = len(data.encode())
    is_large = bytes_count > bounds.bytes_max
    if not may_embed(data) or (is_large and not await in_thread(holds_embed, data)):
        return Resolved(data, _Assembly({}, bounds, policy).info)
    if is_large:
        raise InvalidInput(
            f"data: {bytes_count} bytes with embedded references; at most {bounds.bytes_max} are allowed."
        )
    value = await in_thread(json.loads, data)
    parts = await _read_parts(lineage, value, bounds)
    assembly = _Assembly(parts, bounds, policy, bytes_count=bytes_count)
    ancestors: _Ancestors = frozenset() if revision_id is None else frozenset({(revision_id, "")})
    text = await in_thread(assembly.text_of, value, ancestors)
    return Resolved(text if assembly.has_seen_any else data, assembly.info)


async def _read_parts(lineage: Lineage, value: Any, bounds: EmbedLimits) -> _Parts:
    """Read all that embeds name, level by level."""
    parts: dict[EmbedTarget, _Part | str] = {}
    values, bytes_left = [value], bounds.bytes_max
    for _ in range(bounds.depth_max):
        targets = await in_thread(targets_in, values, count_max=bounds.embeds_max)
        new = [target for target in targets if target not in parts][: bounds.embeds_max - len(parts)]
        if not new:
            break
        rows = await lineage.embedded(new, bytes_max=bytes_left)
        level = await in_thread(_level, new, rows)
        parts |= level
        found = [part for part in level.values() if isinstance(part, _Part)]
        values = [part.value for part in found]
        bytes_left -= sum(part.bytes_count for part in found)
    return parts


def _level(targets: Sequence[EmbedTarget], rows: Sequence[Embedded]) -> dict[EmbedTarget, _Part | str]:
    by_place = {row.place: row for row in rows}
    return {target: _part(target, by_place.get(place)) for place, target in enumerate(targets, 1)}


def _part(target: EmbedTarget, row: Embedded | None) -> _Part | str:
    if row is None:
        return f"there is no revision that {described(target)} names"
    if row.bytes_count is None:
        where = f" at '{target.path}'" if target.path else ""
        return f"version {row.version} of '{row.variant_slug}' holds nothing{where}"
    if row.value is None:
        return TOO_LARGE
    value = json.loads(row.value)
    return _Part((row.id, target.path), reference_members(target.word, row), value, row.bytes_count, depth_of(value))


@dataclass
class _Assembly:
    """Assembles one value and counts. ``bytes_count`` is its size so far."""

    parts: _Parts
    bounds: EmbedLimits
    policy: ErrorPolicy
    bytes_count: int = 0
    _used: dict[UUID, Mapping[str, Any]] = field(default_factory=dict)
    _errors: list[str] = field(default_factory=list)
    _seen_count: int = 0
    _resolved_count: int = 0
    _depth: int = 0

    @property
    def has_seen_any(self) -> bool:
        """Whether the value holds an embed."""
        return self._seen_count > 0

    @property
    def info(self) -> Mapping[str, Any]:
        """The member ``resolution_info`` of a response."""
        return {
            "references_used": list(self._used.values()),
            "depth_reached": self._depth,
            "embeds_resolved": self._resolved_count,
            "errors": self._errors,
        }

    def text_of(self, value: Any, ancestors: _Ancestors) -> str:
        """Return the value with all embeds replaced, as JSON text."""
        text = json_text(replaced(value, lambda embed: self._value(embed, ancestors, level=1)))
        if len(text.encode()) > self.bounds.bytes_max:
            raise InvalidInput(f"data: with the embedded values it would have more than {self.bounds.bytes_max} bytes.")
        return text

    def _value(self, embed: Embed, ancestors: _Ancestors, *, level: int) -> Any:
        try:
            return self._resolved(embed, ancestors, level=level)
        except Unresolved as exc:
            return self._failed(embed, str(exc))

    def _resolved(self, embed: Embed, ancestors: _Ancestors, *, level: int) -> Any:
        self._seen_count += 1
        if self._seen_count > self.bounds.embeds_max:
            raise Unresolved(TOO_MANY)
        part = self._checked_part(embed, ancestors, level=level)
        self._resolved_count += 1
        self._depth = max(self._depth, level)
        self._used.setdefault(part.key[0], part.references)
        inside = ancestors | {part.key}
        value = replaced(
            part.value,
            lambda inner: self._value(inner, inside, level=level + 1),
            place=embed.place,
            depth=embed.depth,
        )
        if not embed.is_text or isinstance(value, str):
            return value
        text = json_text(value)
        self._take(len(text))
        return text

    def _checked_part(self, embed: Embed, ancestors: _Ancestors, *, level: int) -> _Part:
        target = embed.target()
        if level > self.bounds.depth_max:
            raise Unresolved(f"embedded references nest {level} levels deep; max_depth is {self.bounds.depth_max}")
        part = self.parts.get(target, TOO_MANY)
        if isinstance(part, str):
            raise Unresolved(part)
        if part.key in ancestors:
            raise Unresolved(f"{described(target)} contains the reference that embeds it: a cycle")
        if embed.depth + part.depth > JSON_DEPTH_MAX:
            raise Unresolved(f"with its value, objects and arrays would nest deeper than {JSON_DEPTH_MAX} levels")
        self._take(part.bytes_count)
        return part

    def _take(self, bytes_count: int) -> None:
        if self.bytes_count + bytes_count > self.bounds.bytes_max:
            raise Unresolved(TOO_LARGE)
        self.bytes_count += bytes_count

    def _failed(self, embed: Embed, reason: str) -> Any:
        if len(self._errors) < ERRORS_MAX:
            self._errors.append(f"{_path_text(embed.place)}: the embedded reference has no value: {reason}.")
        if self.policy is ErrorPolicy.EXCEPTION:
            raise InvalidInput(self._errors[0])
        return embed.source if self.policy is ErrorPolicy.KEEP else PLACEHOLDER


def _path_text(place: tuple[str | int, ...]) -> str:
    return "data" + "".join(f"[{step}]" if isinstance(step, int) else f".{step[:200]}" for step in place)
