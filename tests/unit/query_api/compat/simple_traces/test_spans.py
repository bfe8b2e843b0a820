"""Origin, kind and channel survive their way through flags."""

from __future__ import annotations

from itertools import product

from query_api.compat.simple_traces.models import Channel, Origin, TraceKind
from query_api.compat.simple_traces.spans import flags_of, read_flags, wanted_flags

EVERY = list(product(Origin, TraceKind, Channel))


def test_flags_round_trip() -> None:
    assert [read_flags(flags_of(*each)) for each in EVERY] == EVERY


def test_each_value_has_distinct_flags() -> None:
    for asked in EVERY:
        wanted = wanted_flags(*asked)
        fitting = [
            each for each in EVERY if all(flags_of(*each).get(flag, False) is is_set for flag, is_set in wanted.items())
        ]
        assert fitting == [asked]


def test_no_value_needs_no_flags() -> None:
    assert wanted_flags(None, None, None) == {}


def test_a_flag_that_is_not_true_is_absent() -> None:
    assert read_flags({"is_custom": "true", "is_web": False}) == (Origin.AUTO, TraceKind.ADHOC, Channel.API)
