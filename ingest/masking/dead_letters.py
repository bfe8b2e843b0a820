"""What a dead letter holds if its project has rules (contract §9 “Masking”, ADR 0021).

It holds the masked span in the encoding of its record. A record that cannot be decoded, and a span that cannot be
masked, are kept without their value: the reason names size and SHA-256. The reason itself is general, because reasons
repeat parts of what was sent. Key and headers are masked too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

from common.errors import RejectionCode
from common.kafka.record import CONTENT_TYPE_HEADER, PROJECT_HEADER, Encoding, Header, Record, Signal
from common.limits import KIB
from common.masking import NO_MASKS, Mask, MaskSet
from ingest.masking.planned import PlannedMask, planned_masks
from ingest.masking.wire import masked_value

GROWTH_BYTES_MIN: Final = 64 * KIB
"""A masked value may be larger than its record up to this size; beyond both it is not kept."""

_SAFE_REASONS: Final = frozenset({RejectionCode.SPAN_TOO_LARGE, RejectionCode.RECORD_TOO_LARGE})
"""Codes whose reasons repeat nothing that was sent."""

_UNREADABLE: Final = frozenset({RejectionCode.UNDECODABLE, RejectionCode.UNSUPPORTED_CONTENT_TYPE})
_KEPT_HEADERS: Final = frozenset({CONTENT_TYPE_HEADER, PROJECT_HEADER})


@dataclass(frozen=True, slots=True)
class Masking:
    """The rules of all projects, and what is needed to find those of a record. Can be sent to another process.

    ``topic_projects`` are the projects of records that name none, by topic. ``keeps_unmaskable``: keep the value of
    what cannot be masked.
    """

    masks: MaskSet = NO_MASKS
    topic_projects: Mapping[str, UUID] = field(default_factory=dict)
    keeps_unmaskable: bool = False

    def by_project(self) -> Mapping[UUID, PlannedMask]:
        """Return the masks of the projects that have rules, ready for use."""
        return planned_masks(self.masks) if self.masks.text else {}


NO_MASKING: Final = Masking()


class MaskedDeadLetter(NamedTuple):
    """What is kept of a dead letter. ``reason`` is ``None`` if the original one may be kept."""

    value: bytes
    key: bytes | None
    headers: tuple[Header, ...]
    reason: str | None


def masked_dead_letter(
    record: Record,
    value: bytes,
    code: RejectionCode,
    *,
    encoding: Encoding | None,
    signal: Signal = Signal.TRACES,
    masking: Masking,
) -> MaskedDeadLetter | None:
    """Return what a dead letter with this value may hold; ``None`` if no project of its spans has rules.

    ``encoding`` is that of the value, ``None`` if it is not known.
    """
    masks = masking.by_project()
    if not masks or code is RejectionCode.UNKNOWN_PROJECT:
        return None
    used = _Used(record, masks, masking.topic_projects)
    if used.is_unmasked:
        return None
    masked: bytes | None = None
    if encoding is not None and code not in _UNREADABLE:
        try:
            masked = masked_value(value, encoding, used.mask_of, signal)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - whatever it is, the value cannot be masked
            masked = None
        if masked is not None and not used.masks:
            return None
    if masked is not None and len(masked) > max(len(record.value or b""), GROWTH_BYTES_MIN):
        masked = None
    key, headers = _envelope(record, used.masks if masked is not None else used.possible)
    reason = None if code in _SAFE_REASONS else f"It was rejected as {code.value}. Its project masks content."
    if masked is None and not masking.keeps_unmaskable:
        digest = hashlib.sha256(value).hexdigest()
        reason = (
            f"It was rejected as {code.value}. Its project masks content, and it cannot be masked, so its value of"
            f" {len(value)} bytes with the SHA-256 {digest} is not kept."
        )
    return MaskedDeadLetter(_kept(value, masked, masking), key, headers, reason)


def _kept(value: bytes, masked: bytes | None, masking: Masking) -> bytes:
    if masked is not None:
        return masked
    return value if masking.keeps_unmaskable else b""


class _Used:
    """The masks of the spans of one record, as far as their projects are known."""

    def __init__(self, record: Record, masks: Mapping[UUID, Mask], topic_projects: Mapping[str, UUID]) -> None:
        self._all = masks
        self._header = record.header(PROJECT_HEADER)
        self._named = _uuid(self._header.decode("utf-8", "replace")) if self._header is not None else None
        self._fallback = topic_projects.get(record.topic)
        self.masks: list[Mask] = []
        """Those that were used."""

    @property
    def is_unmasked(self) -> bool:
        """Whether the record names a project without rules."""
        return self._named is not None and self._named not in self._all

    @property
    def possible(self) -> Sequence[Mask]:
        """The masks of every project to which the record may belong."""
        return [self._all[self._named]] if self._named is not None else list(self._all.values())

    def mask_of(self, claim: Any) -> Mask | None:
        """Return the mask for spans whose resource names this project, or none. Notes that it is used."""
        project = self._named
        if project is None:
            project = self._fallback if claim is None else _uuid(claim)
        mask = None if project is None else self._all.get(project)
        if mask is not None and mask not in self.masks:
            self.masks.append(mask)
        return mask


def _uuid(text: Any) -> UUID | None:
    try:
        return UUID(text)
    except (ValueError, AttributeError, TypeError):
        return None


def _envelope(record: Record, masks: Sequence[Mask]) -> tuple[bytes | None, tuple[Header, ...]]:
    """Return key and headers of the record, masked; those that say what the record is stay."""
    key, headers = record.key, record.headers
    for mask in masks:
        key = _masked_bytes(key, mask)
        headers = tuple(
            (name, value) if name in _KEPT_HEADERS else (mask.text_anywhere(name) or "", _masked_bytes(value, mask))
            for name, value in headers
        )
    return key, headers


def _masked_bytes(value: bytes | None, mask: Mask) -> bytes | None:
    if not value:
        return value
    text = value.decode("utf-8", "replace")
    masked = mask.text_anywhere(text)
    return value if masked == text else (masked or "").encode()
