"""Replaces embedded references by their values (reference ``workflows-evaluators-testsets`` §4, contract §5).

One statement reads what all embeds of a level name, each part of a revision once; a second one what they name by a key
of another revision. The embeds in these parts are the next level, and so is one to which a path leads. Then the value
is assembled in memory. Levels, embeds and bytes are bounded, so a request can cause neither unbounded reads nor
unbounded memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from common.errors import InvalidInput
from common.fair_share import in_thread
from query_api.registry.embed_targets import EmbedError, KeyedReferences, Unresolved, beyond, described, holder_of
from query_api.registry.embeds import Embed, depth_of, holds_embed, may_embed, replaced, targets_in
from query_api.registry.kinds import JSON_DEPTH_MAX, json_text
from query_api.registry.responses import reference_members
from query_api.registry.schemas import ErrorPolicy
from query_api.registry.store import Lineage
from query_api.registry.values import Embedded, EmbedTarget, Steps

ERRORS_MAX: Final = 100
"""The errors that one response reports."""

PLACEHOLDER: Final = "<error:{}>"
"""Replaces an embed without a value if the policy is ``placeholder``. Within it stands an ``EmbedError``."""


class _Failure(NamedTuple):
    """Why there is no part."""

    text: str
    error: EmbedError

    def exception(self) -> Unresolved:
        return Unresolved(self.text, self.error)


_TOO_LARGE: Final = _Failure("with it the data would be too large", EmbedError.TOO_LARGE)
_TOO_MANY: Final = _Failure("there are more of them than max_embeds allows", EmbedError.TOO_MANY)


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

    key: tuple[UUID, Steps]
    """The revision and the path: an embed in it that leads back to it is a cycle."""

    references: Mapping[str, Any]
    value: Any
    bytes_count: int
    depth: int
    leads_to: EmbedTarget | None = None
    """If given, the path of the embed leads to another embed, and this is where it goes on; ``value`` is then
    ``None``."""


_Found: TypeAlias = _Part | _Failure
_Parts: TypeAlias = Mapping[EmbedTarget, _Found]

_Ancestors: TypeAlias = frozenset[tuple[UUID, Steps]]
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
    ancestors: _Ancestors = frozenset() if revision_id is None else frozenset({(revision_id, ())})
    text = await in_thread(assembly.text_of, value, ancestors)
    return Resolved(text if assembly.has_seen_any else data, assembly.info)


async def _read_parts(lineage: Lineage, value: Any, bounds: EmbedLimits) -> _Parts:
    """Read all that embeds name, level by level."""
    parts: dict[EmbedTarget, _Found] = {}
    reader = _Reader(lineage, bounds.bytes_max)
    targets = await in_thread(targets_in, [value], count_max=bounds.embeds_max)
    for _ in range(bounds.depth_max):
        new = [target for target in targets if target not in parts][: bounds.embeds_max - len(parts)]
        if not new:
            break
        level = await reader.level(new)
        parts |= level
        found = [part for part in level.values() if isinstance(part, _Part)]
        inside = await in_thread(targets_in, [part.value for part in found], count_max=bounds.embeds_max)
        targets = [*inside, *(part.leads_to for part in found if part.leads_to is not None)]
    return parts


@dataclass
class _Reader:
    """Reads parts within a number of bytes."""

    lineage: Lineage
    bytes_left: int

    async def level(self, targets: Sequence[EmbedTarget]) -> dict[EmbedTarget, _Found]:
        """Return the parts of the targets. Those with a key are read after the references that have the key."""
        keyed = [target for target in targets if target.key is not None]
        direct = [target for target in targets if target.key is None]
        first = await self._read([*direct, *map(holder_of, keyed)])
        followed = await in_thread(_keyed_targets, keyed, first)
        second = await self._read([each.target for each in followed.values() if isinstance(each, _KeyedTarget)])
        return {target: first[target] for target in direct} | {
            target: _with_holder(each, second[each.target]) if isinstance(each, _KeyedTarget) else each
            for target, each in followed.items()
        }

    async def _read(self, targets: Sequence[EmbedTarget]) -> dict[EmbedTarget, _Found]:
        wanted = list(dict.fromkeys(targets))
        if not wanted:
            return {}
        rows = await self.lineage.embedded(wanted, bytes_max=self.bytes_left)
        found = await in_thread(_parts_of, wanted, rows)
        self.bytes_left -= sum(part.bytes_count for part in found.values() if isinstance(part, _Part))
        return found


class _KeyedTarget(NamedTuple):
    """What leads to the revision to which a key refers, and its part."""

    references: Mapping[str, Any]
    target: EmbedTarget


class _Held(NamedTuple):
    """The references of an environment, and what leads to it."""

    references: Mapping[str, Any]
    keyed: KeyedReferences


def _keyed_targets(
    keyed: Sequence[EmbedTarget], read: Mapping[EmbedTarget, _Found]
) -> dict[EmbedTarget, _KeyedTarget | _Failure]:
    held = {holder: _held(read[holder]) for holder in map(holder_of, keyed)}
    return {target: _followed(target, held[holder_of(target)]) for target in keyed}


def _held(part: _Found) -> _Held | _Failure:
    return part if isinstance(part, _Failure) else _Held(part.references, KeyedReferences(part.value))


def _followed(target: EmbedTarget, held: _Held | _Failure) -> _KeyedTarget | _Failure:
    if isinstance(held, _Failure):
        return held
    try:
        return _KeyedTarget(held.references, held.keyed.followed(target))
    except Unresolved as exc:
        return _Failure(str(exc), exc.error)


def _with_holder(keyed: _KeyedTarget, part: _Found) -> _Found:
    """Return the part with the references that lead to it."""
    if isinstance(part, _Failure):
        return part
    return part._replace(references={**keyed.references, **part.references})


def _parts_of(targets: Sequence[EmbedTarget], rows: Sequence[Embedded]) -> dict[EmbedTarget, _Found]:
    by_place = {row.place: row for row in rows}
    return {target: _part(target, by_place.get(place)) for place, target in enumerate(targets, 1)}


def _part(target: EmbedTarget, row: Embedded | None) -> _Found:
    if row is None:
        return _Failure(f"there is no revision that {described(target)} names", EmbedError.NOT_FOUND)
    if row.choice is None or row.steps_count is None or row.bytes_count is None:
        where = " or ".join(dict.fromkeys(f"'{'.'.join(path)}'" for path in target.paths if path))
        text = f"version {row.version} of '{row.variant_slug}' holds nothing{' at ' if where else ''}{where}"
        return _Failure(text, EmbedError.NOTHING_THERE)
    if row.value is None:
        return _TOO_LARGE
    path, value = target.paths[row.choice - 1], json.loads(row.value)
    references = reference_members(target.word, row)
    if row.steps_count == len(path):
        return _Part((row.id, path), references, value, row.bytes_count, depth_of(value))
    try:
        leads_to = beyond(target, value, choice=row.choice, steps_count=row.steps_count)
    except Unresolved as exc:
        return _Failure(str(exc), exc.error)
    return _Part((row.id, path), references, None, row.bytes_count, 0, leads_to)


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
            return self._failed(embed, exc)

    def _resolved(self, embed: Embed, ancestors: _Ancestors, *, level: int) -> Any:
        chain = self._chain(embed, ancestors, level=level)
        self._resolved_count += len(chain)
        end = level + len(chain) - 1
        self._depth = max(self._depth, end)
        for part in chain:
            self._used.setdefault(part.key[0], part.references)
        inside = ancestors.union(part.key for part in chain)
        value = replaced(
            chain[-1].value,
            lambda inner: self._value(inner, inside, level=end + 1),
            place=embed.place,
            depth=embed.depth,
        )
        if not embed.is_text or isinstance(value, str):
            return value
        text = json_text(value)
        self._take(len(text))
        return text

    def _chain(self, embed: Embed, ancestors: _Ancestors, *, level: int) -> list[_Part]:
        """Return the part that an embed names, after those through which its path leads."""
        chain: list[_Part] = []
        target: EmbedTarget | None = None
        while not chain or target is not None:
            self._seen_count += 1
            if self._seen_count > self.bounds.embeds_max:
                raise _TOO_MANY.exception()
            target = target or embed.target()
            chain.append(self._checked_part(embed, target, ancestors, level=level + len(chain)))
            ancestors |= {chain[-1].key}
            target = chain[-1].leads_to
        return chain

    def _checked_part(self, embed: Embed, target: EmbedTarget, ancestors: _Ancestors, *, level: int) -> _Part:
        if level > self.bounds.depth_max:
            text = f"embedded references nest {level} levels deep; max_depth is {self.bounds.depth_max}"
            raise Unresolved(text, EmbedError.TOO_DEEP)
        part = self.parts.get(target, _TOO_MANY)
        if isinstance(part, _Failure):
            raise part.exception()
        if part.key in ancestors:
            text = f"{described(target)} contains the reference that embeds it: a cycle"
            raise Unresolved(text, EmbedError.CYCLE)
        if embed.depth + part.depth > JSON_DEPTH_MAX:
            text = f"with its value, objects and arrays would nest deeper than {JSON_DEPTH_MAX} levels"
            raise Unresolved(text, EmbedError.TOO_LARGE)
        self._take(part.bytes_count)
        return part

    def _take(self, bytes_count: int) -> None:
        if self.bytes_count + bytes_count > self.bounds.bytes_max:
            raise _TOO_LARGE.exception()
        self.bytes_count += bytes_count

    def _failed(self, embed: Embed, failure: Unresolved) -> Any:
        if len(self._errors) < ERRORS_MAX:
            self._errors.append(f"{_path_text(embed.place)}: the embedded reference has no value: {failure}.")
        if self.policy is ErrorPolicy.EXCEPTION:
            raise InvalidInput(self._errors[0])
        return embed.source if self.policy is ErrorPolicy.KEEP else PLACEHOLDER.format(failure.error)


def _path_text(place: tuple[str | int, ...]) -> str:
    return "data" + "".join(f"[{step}]" if isinstance(step, int) else f".{step[:200]}" for step in place)
