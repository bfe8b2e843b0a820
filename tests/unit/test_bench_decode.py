"""The stages of decoding that the performance table names take part in decoding."""

from __future__ import annotations

from bench.decode import measure


def test_every_stage_takes_time_and_the_parts_of_a_chunk_add_up() -> None:
    for name, stages in measure(400, 1).items():
        assert min(stages[stage] for stage in ("protobuf", "together", "columns", "pipe")) > 0
        assert (stages["normalize"] + stages["map"] > 0) is (name != "plain")
        parts = ("together", "decode", "normalize", "map", "columns")
        assert 0.9 * stages["chunk"] < sum(stages[part] for part in parts) < 1.1 * stages["chunk"]
