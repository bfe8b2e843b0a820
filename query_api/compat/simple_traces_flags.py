"""Origin, kind and channel as flags of a span, in ``ag.flags`` (reference §1.6).

One value of each is the absence of every flag. The reference has flags for some of the others alone, so that a ``play`` comes
back as ``adhoc`` and ``otlp`` as ``api``; two flags more keep them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from query_api.compat.simple_traces_models import Channel, Origin, TraceKind

_FLAGS: Final[tuple[Mapping[str, str], ...]] = (
    {Origin.CUSTOM: "is_custom", Origin.HUMAN: "is_feedback"},
    {TraceKind.EVAL: "is_evaluation", TraceKind.PLAY: "is_play"},
    {Channel.SDK: "is_sdk", Channel.WEB: "is_web", Channel.OTLP: "is_otlp"},
)


def flags_of(origin: Origin, kind: TraceKind, channel: Channel) -> dict[str, bool]:
    """The flags that say so."""
    return {flag: True for flags in _FLAGS for value, flag in flags.items() if value in (origin, kind, channel)}


def read_flags(flags: Mapping[str, Any]) -> tuple[Origin, TraceKind, Channel]:
    """What the flags say."""
    origin, kind, channel = (
        next((value for value, flag in of_one.items() if flags.get(flag) is True), None) for of_one in _FLAGS
    )
    return Origin(origin or Origin.AUTO), TraceKind(kind or TraceKind.ADHOC), Channel(channel or Channel.API)


def wanted_flags(origin: Origin | None, kind: TraceKind | None, channel: Channel | None) -> dict[str, bool]:
    """Flag → whether it must be set, for the values that are given: the absence of all flags excludes each."""
    wanted: dict[str, bool] = {}
    for of_one, value in zip(_FLAGS, (origin, kind, channel), strict=True):
        if value is not None and value in of_one:
            wanted[of_one[value]] = True
        elif value is not None:
            wanted |= dict.fromkeys(of_one.values(), False)
    return wanted
