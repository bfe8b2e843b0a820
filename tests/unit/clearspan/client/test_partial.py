"""Files of an interrupted export: a part is kept as a whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from clearspan.client.partial import (
    TAIL_BYTES,
    ExportState,
    GrowingFile,
    PartialPaths,
    PartialRefused,
    locked,
    read_state,
    write_state,
)

SUMMARY = b'{"export":{"count":2}}\n'
REQUEST = {"format": "jsonl"}


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[GrowingFile]:
    (tmp_path / "file").write_bytes(b"")
    with closing(GrowingFile(tmp_path / "file", 0)) as growing:
        yield growing


@pytest.mark.parametrize("line", [b"{}\n", b"x" * TAIL_BYTES + b"\n", b"x" * 3 * TAIL_BYTES + b"\n"])
@pytest.mark.parametrize("step", [1_000_000_000, 70_000])
def test_summary_is_not_part_of_the_file(growing: GrowingFile, tmp_path: Path, line: bytes, step: int) -> None:
    sent = 3 * line + SUMMARY
    for begin in range(0, len(sent), step):
        growing.receive(sent[begin : begin + step])
    assert growing.end_part() == {"export": {"count": 2}}
    assert (tmp_path / "file").read_bytes() == 3 * line
    assert growing.hexdigest() == hashlib.sha256(3 * line).hexdigest()


def test_part_without_spans_adds_nothing(growing: GrowingFile, tmp_path: Path) -> None:
    growing.receive(SUMMARY)
    assert growing.end_part() == {"export": {"count": 2}}
    assert (tmp_path / "file").read_bytes() == b""


@pytest.mark.parametrize("end", [b"", b'{"export":{"co', SUMMARY[:-1]])
def test_part_without_its_summary_is_cut_off(growing: GrowingFile, tmp_path: Path, end: bytes) -> None:
    growing.receive(b"1\n" + SUMMARY)
    growing.end_part()
    growing.begin_part()
    growing.receive(b"2\n" * TAIL_BYTES * 2 + b"x" + end)
    assert growing.end_part() is None
    growing.begin_part()
    assert (tmp_path / "file").read_bytes() == b"1\n"
    growing.receive(b"3\n" + SUMMARY)
    growing.end_part()
    assert (tmp_path / "file").read_bytes() == b"1\n3\n"
    assert growing.hexdigest() == hashlib.sha256(b"1\n3\n").hexdigest()


def test_file_that_goes_on_has_the_checksum_of_all_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1\n2\nhalf of a")
    with closing(GrowingFile(tmp_path / "file", 4)) as growing:
        growing.receive(b"3\n" + SUMMARY)
        growing.end_part()
        assert growing.hexdigest() == hashlib.sha256(b"1\n2\n3\n").hexdigest()
    assert (tmp_path / "file").read_bytes() == b"1\n2\n3\n"


def test_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    paths = PartialPaths(tmp_path / "[a]*.jsonl")
    paths.data.write_bytes(b"12345")
    state = ExportState(REQUEST, rows=2, bytes=5, parts=1, cursor="c")
    assert read_state(paths, REQUEST) == ExportState(REQUEST)
    write_state(paths, state)
    assert read_state(paths, REQUEST) == state
    paths.data.write_bytes(b"1234")
    with pytest.raises(PartialRefused, match=r"is shorter than .* says; run it again with --restart"):
        read_state(paths, REQUEST)
    paths.part(1).write_bytes(b"")
    paths.discard()
    assert list(tmp_path.iterdir()) == []


def test_two_exports_of_one_file_are_refused(tmp_path: Path) -> None:
    paths = PartialPaths(tmp_path / "file")
    with locked(paths), pytest.raises(PartialRefused, match="another export is writing"), locked(paths):
        pass
