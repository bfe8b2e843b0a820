"""How many files of the product a chunk of records enters, which is what a reader of its way has to open."""

from __future__ import annotations

import pytest

from bench.semconv import RULES, chunk_of
from bench.varied import SETS
from ingest.decoding.chunk import decode_chunk
from tests.support.steps import files_entered

SPANS = 400
"""More than 64 KiB of records, so that they are read together."""


@pytest.mark.parametrize(("kind", "files_max"), [("plain", 20), ("llm", 35)])
def test_chunk_enters_few_files(kind: str, files_max: int) -> None:
    chunk = chunk_of(SETS[kind](SPANS))
    for _ in range(2):  # plans of keys are kept when they come again
        decode_chunk(chunk, RULES)
    with files_entered() as entered:
        decode_chunk(chunk, RULES)

    assert 10 < len(entered) <= files_max, "\n".join(sorted(entered))
