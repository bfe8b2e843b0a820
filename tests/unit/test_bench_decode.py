"""The stages of decoding that the performance table names take part in decoding."""

from __future__ import annotations

from bench.decode import measure


def test_every_stage_takes_time_and_the_parts_of_a_chunk_add_up() -> None:
    for stages in measure(200, 1).values():
        assert min(stages[name] for name in ("protobuf", "decode", "normalize", "columns", "pipe")) > 0
        assert stages["chunk"] > stages["decode"] + stages["columns"]
