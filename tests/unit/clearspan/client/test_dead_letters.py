"""``clearspan dead-letters`` with an API that answers from memory."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from clearspan.cli import main
from clearspan.client import connection, dead_letters
from clearspan.client.connection import RequestFailed
from clearspan.client.output import print_table
from clearspan.options import ServerOptions
from common.settings import Settings

LETTER = {
    "id": "0-17",
    "topic": "spans",
    "partition": 0,
    "offset": 3,
    "span_index": 0,
    "code": "invalid_span_id",
    "reason": "“\x1b[2J\n0-18\x9b31m” is not a span id.",
    "created_at": "2026-01-02T03:04:05Z",
    "bytes_count": 9,
}
VALUE = b"\xff{}"
Command = Callable[..., int]


class MemoryApi:
    """Three dead letters: two of a topic that is read, one of a topic that is no longer read."""

    def __init__(self) -> None:
        self.replayed: list[str] = []
        self.open = {f"0-{number}": _letter(number) for number in range(3)}
        self.open["0-2"]["topic"] = "old"

    async def get(self, path: str, **query: str) -> dict[str, Any]:
        if path != dead_letters.PATH:
            found = self.open.get(path.rpartition("/")[2])
            encoded = base64.b64encode(VALUE).decode()
            return {"count": 0} if found is None else {"count": 1, "dead_letter": {**found, "value_base64": encoded}}
        newest_first = [*self.open.values()][::-1]
        first = int(query.get("next", "0"))
        page = newest_first[first : first + 2]
        more = {"windowing": {"next": str(first + 2)}} if first + 2 < len(newest_first) else {}
        return {"count": len(page), "dead_letters": page, **more}

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        found = self._require(path.split("/")[-2])
        if found["topic"] == "old":
            raise RequestFailed(f"{found['id']} came from the topic old.", status=409)
        if body.get("dry_run"):
            return {"dead_letter": found, "dry_run": True}
        self.replayed.append(found["id"])
        offset = len(self.replayed) - 1
        return {"dead_letter": {**found, "went_to": {"topic": "spans", "partition": 0, "offset": offset}}}

    async def request(self, method: str, path: str, *, query: dict[str, str] | None = None) -> dict[str, Any]:
        found = self._require(path.rpartition("/")[2])
        if not query:
            del self.open[found["id"]]
        return {"dead_letter": found}

    def _require(self, name: str) -> dict[str, Any]:
        if name not in self.open:
            raise RequestFailed(f"404 {name} is not an open dead letter.", status=404)
        return self.open[name]


def _letter(number: int) -> dict[str, Any]:
    more = {"span_index": 3} if number else {}
    return {
        "id": f"0-{number}",
        "topic": "spans",
        "partition": 1,
        "offset": number + 10,
        "code": "undecodable",
        "reason": "No JSON.",
        "created_at": f"2026-01-0{number + 1}T00:00:00Z",
        "bytes_count": 3,
        "project": "p",
        **more,
    }


@pytest.fixture
def api() -> MemoryApi:
    return MemoryApi()


@pytest.fixture
def command(api: MemoryApi, monkeypatch: pytest.MonkeyPatch) -> Command:
    @asynccontextmanager
    async def connect(_settings: Settings, server: ServerOptions, *, scheme: str) -> AsyncIterator[MemoryApi]:
        if server.key == "wrong":
            raise RequestFailed("401", status=401)
        assert scheme == "Access"
        yield api

    monkeypatch.setattr(connection, "open_connection", connect)

    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(["dead-letters", *arguments])
        assert isinstance(ended.value.code, int)
        return ended.value.code

    return run


def test_reason_cannot_add_a_row_or_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(dead_letters._COLUMNS, [dead_letters._row(LETTER)])

    _head, _line, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 1
    assert rows[0].endswith(r"“\x1b[2J\x0a0-18\x9b31m” is not a span id.")


def test_original_bytes_cannot_command_the_terminal() -> None:
    assert dead_letters._readable(
        b'{\n\t"name": "\x1b]0;owned\x07 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb"}\r\n'
    ) == ('{\n\t"name": "\\x1b]0;owned\\x07 👩\u200d💻"}\\x0d\n')


def test_id_given_twice_is_dropped_once(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("drop", "--yes", "0-1", "0-0", "0-1") == 0

    assert capsys.readouterr().out == "0-1 is dropped.\n0-0 is dropped.\n"


def test_wrong_admin_key_is_an_error_message(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("list", "--admin-key", "wrong") == 1

    assert "give it with --admin-key or CLEARSPAN_ADMIN_KEY" in capsys.readouterr().err


def test_list_is_a_table_for_people(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("list") == 0
    head, _line, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["id", "from", "span", "code", "bytes", "reason"]
    assert [row.split()[:5] for row in rows[:2]] == [
        ["0-0", "spans/1/10", "all", "undecodable", "3"],
        ["0-1", "spans/1/11", "3", "undecodable", "3"],
    ]

    assert command("drop", "--yes", "0-0", "0-1", "0-2") == 0
    assert capsys.readouterr().out == "0-0 is dropped.\n0-1 is dropped.\n0-2 is dropped.\n"
    assert command("list") == 0
    assert capsys.readouterr() == ("There are no dead letters.\n", "")
    assert command("list", "--json") == 0
    assert capsys.readouterr() == ("", "")


def test_json_list_has_one_object_per_line(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "LISTED_MAX", 2)

    assert command("list", "--json") == 0

    output = capsys.readouterr()
    first, _second = map(json.loads, output.out.splitlines())
    assert list(first) == [
        "id",
        "topic",
        "partition",
        "offset",
        "span_index",
        "code",
        "reason",
        "created_at",
        "bytes_count",
    ]
    assert (first["id"], first["span_index"], first["bytes_count"]) == ("0-1", 3, 3)
    assert output.err == "There are older ones: replay or drop some of these first.\n"


def test_show_prints_the_original_bytes(command: Command, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert command("show", "0-0", "--raw") == 0
    assert capfdbinary.readouterr() == (VALUE, b"")

    assert command("show", "0-0", "--json") == 0
    shown = json.loads(capfdbinary.readouterr().out)
    assert (shown["reason"], base64.b64decode(shown["value_base64"])) == ("No JSON.", VALUE)

    assert command("show", "0-0") == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[0] == "id           0-0"
    assert lines[-1] == "value        /3t9   (base64; --raw writes the bytes)"


def test_shared_dead_letter_shows_its_span_count_and_codes(
    command: Command, api: MemoryApi, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = {"invalid_trace_id": 3, "absurd_time": 2}
    api.open["0-3"] = {**_letter(0), "id": "0-3", "offset": 20, "code": "many_spans", "span_count": 5, "codes": codes}

    assert command("list") == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:4] == ["0-3", "spans/1/20", "×5", "many_spans"]
    assert command("show", "0-3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "span_count   5" in lines
    assert 'codes        {"invalid_trace_id": 3, "absurd_time": 2}' in lines
    assert not [line for line in lines if "None" in line]


def test_replay_prints_the_new_coordinates(
    command: Command, api: MemoryApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("replay", "0-0") == 0
    assert capsys.readouterr().out == "0-0 went to spans, partition 0, offset 0.\n"
    assert command("replay", "0-1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"id": "0-1", "topic": "spans", "partition": 0, "offset": 1}

    assert api.replayed == ["0-0", "0-1"]


@pytest.mark.parametrize("action", [["replay"], ["drop", "--yes"]])
def test_nothing_is_done_if_one_of_the_ids_is_not_open(
    command: Command, api: MemoryApi, capsys: pytest.CaptureFixture[str], action: list[str]
) -> None:
    command("drop", "--yes", "0-1")
    capsys.readouterr()

    assert command(*action, "0-0", "0-1") == 1

    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("clearspan: ")
    assert "0-1" in output.err
    assert "0-0" not in output.err
    assert api.replayed == []


def test_dead_letter_of_an_unread_topic_is_not_replayed(
    command: Command, api: MemoryApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("replay", "0-0", "0-2") == 1

    assert "0-2 came from the topic old" in capsys.readouterr().err
    assert api.replayed == []


@pytest.mark.parametrize(("reply", "code"), [("y", 0), (" YES ", 0), ("n", 1), ("", 1), (None, 1)])
def test_drop_needs_a_yes(
    command: Command,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    reply: str | None,
    code: int,
) -> None:
    def answer() -> str:
        if reply is None:
            raise EOFError
        return reply

    monkeypatch.setattr("builtins.input", answer)

    assert command("drop", "0-0", "--json") == code

    output = capsys.readouterr()
    question = "Drop 0-0? [y/N] "
    if code:
        assert (output.out, output.err) == ("", question + "Nothing was dropped.\n")
    else:
        assert (json.loads(output.out), output.err) == ({"id": "0-0", "is_dropped": True}, question)
