"""How many files of the product a chunk of records enters, which is what a reader of its way has to open."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

from bench.semconv import RULES, chunk_of
from bench.varied import SETS
from ingest.decoding.chunk import decode_chunk

ROOT = Path(__file__).parents[4]
PACKAGES = tuple(f"{ROOT / package}/" for package in ("clearspan", "common", "ingest", "query_api"))
SPANS = 400
"""More than 64 KiB of records, so that they are read together."""


@pytest.mark.parametrize(("kind", "files_max"), [("plain", 16), ("llm", 35)])
def test_chunk_enters_few_files(kind: str, files_max: int) -> None:
    chunk = chunk_of(SETS[kind](SPANS))
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGES):
            entered.add(frame.f_code.co_filename)

    for _ in range(2):  # plans of keys are kept when they come again
        decode_chunk(chunk, RULES)
    profiler = sys.getprofile()
    sys.setprofile(note)
    try:
        decode_chunk(chunk, RULES)
    finally:
        sys.setprofile(profiler)

    assert 10 < len(entered) <= files_max, sorted(entered)
