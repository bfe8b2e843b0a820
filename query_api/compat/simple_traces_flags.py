"""Store origin, kind and channel as flags of a span, in ``ag.flags`` (reference §1.6).

One value of each means that no flag is set. The reference has flags only for some other values, so that it returns
``play`` as ``adhoc`` and ``otlp`` as ``api``; two more flags distinguish them.
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
    """Return the flags of the values."""
    return {flag: True for flags in _FLAGS for value, flag in flags.items() if value in (origin, kind, channel)}


def read_flags(flags: Mapping[str, Any]) -> tuple[Origin, TraceKind, Channel]:
    """Return the values of the flags."""
    origin, kind, channel = (
        next((value for value, flag in flags_by_value.items() if flags.get(flag) is True), None)
        for flags_by_value in _FLAGS
    )
    return Origin(origin or Origin.AUTO), TraceKind(kind or TraceKind.ADHOC), Channel(channel or Channel.API)


def wanted_flags(origin: Origin | None, kind: TraceKind | None, channel: Channel | None) -> dict[str, bool]:
    """Return whether each flag must be set or unset for the given values."""
    wanted: dict[str, bool] = {}
    for flags_by_value, value in zip(_FLAGS, (origin, kind, channel), strict=True):
        if value is not None and value in flags_by_value:
            wanted[flags_by_value[value]] = True
        elif value is not None:
            wanted |= dict.fromkeys(flags_by_value.values(), False)
    return wanted
