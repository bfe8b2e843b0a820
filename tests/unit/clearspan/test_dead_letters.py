from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from clearspan import dead_letters
from clearspan.cli import main
from clearspan.client.output import print_table
from common.kafka import dead_letters as topic
from common.kafka.dead_letters import DeadLetter
from common.settings import KafkaSettings, Settings
from tests.fakes.kafka import MemoryBroker

LETTER = DeadLetter(
    id="0-17",
    topic="spans",
    partition=0,
    offset=3,
    span_index=0,
    code="invalid_span_id",
    reason="“\x1b[2J\n0-18\x9b31m” is not a span id.",
    created_at="2026-01-02T03:04:05Z",
    bytes_count=9,
)


def test_reason_cannot_add_a_row_or_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(dead_letters._COLUMNS, [dead_letters._row(LETTER)])

    _head, _line, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 1
    assert rows[0].endswith(r"“\x1b[2J\x0a0-18\x9b31m” is not a span id.")


def test_original_bytes_cannot_command_the_terminal() -> None:
    assert dead_letters._readable(
        b'{\n\t"name": "\x1b]0;owned\x07 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb"}\r\n'
    ) == ('{\n\t"name": "\\x1b]0;owned\\x07 👩\u200d💻"}\\x0d\n')


def test_id_given_twice_is_dropped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts: list[str] = []
    monkeypatch.setattr(dead_letters, "confirm", prompts.append)

    dead_letters.drop.run(Settings(), dead_letter_ids=["0-17", "0-3", "0-17"], yes=False, as_json=False)

    assert prompts == ["Drop 0-17, 0-3? [y/N] "]


VALUE = b"\xff{}"
Command = Callable[..., int]


@pytest.fixture(autouse=True)
def no_audit_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/integration/test_audit_log.py has one."""
    monkeypatch.setattr(dead_letters, "audited_if_possible", lambda *_, **__: nullcontext())


@pytest.fixture
def broker() -> MemoryBroker:
    """Three dead letters: two of a topic that is read, one of a topic that is no longer read."""
    broker = MemoryBroker(partitions=1)
    for offset, source in enumerate(["spans", "spans", "old"]):
        headers = {
            "clearspan-topic": source,
            "clearspan-partition": "1",
            "clearspan-offset": str(offset + 10),
            "clearspan-timestamp": "7",
            "clearspan-span-index": "3" if offset else "",
            "clearspan-code": "undecodable",
            "clearspan-reason": "No JSON.",
            "clearspan-time": f"2026-01-0{offset + 1}T00:00:00Z",
        }
        sent = [(name, text.encode()) for name, text in headers.items() if text]
        asyncio.run(broker.append(KafkaSettings().dead_letter_topic, VALUE, headers=sent))
    return broker


@pytest.fixture
def command(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setattr(dead_letters, "KafkaLog", lambda _settings: broker)
    monkeypatch.setattr(dead_letters, "KafkaPublisher", lambda _settings: broker.publisher())
    monkeypatch.setattr(dead_letters, "at_running_stack", lambda settings: settings)

    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(["dead-letters", *arguments])
        assert isinstance(ended.value.code, int)
        return ended.value.code

    return run


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
    monkeypatch.setattr(topic, "DEAD_LETTERS_MAX", 2)

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
    assert (first["id"], first["span_index"], first["bytes_count"]) == ("0-0", None, 3)
    assert output.err == "There are more: replay or drop some of these first.\n"


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
    command: Command, broker: MemoryBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    headers = {
        "clearspan-topic": "spans",
        "clearspan-partition": "1",
        "clearspan-offset": "20",
        "clearspan-code": "many_spans",
        "clearspan-reason": "Span 100: no id.",
        "clearspan-time": "2026-01-09T00:00:00Z",
        "clearspan-span-count": "5",
        "clearspan-codes": '{"invalid_trace_id": 3, "absurd_time": 2}',
    }
    sent = [(name, text.encode()) for name, text in headers.items()]
    asyncio.run(broker.append(KafkaSettings().dead_letter_topic, b'{"spans":[]}', headers=sent))

    assert command("list") == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:4] == ["0-3", "spans/1/20", "×5", "many_spans"]
    assert command("show", "0-3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "span_count   5" in lines
    assert 'codes        {"invalid_trace_id": 3, "absurd_time": 2}' in lines
    assert not [line for line in lines if "None" in line]


def test_replay_prints_the_new_coordinates(
    command: Command, broker: MemoryBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("replay", "0-0") == 0
    assert capsys.readouterr().out == "0-0 went to spans, partition 0, offset 0.\n"
    assert command("replay", "0-1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"id": "0-1", "topic": "spans", "partition": 0, "offset": 1}

    assert [record.value for record in broker.records("spans")] == [VALUE, VALUE]


@pytest.mark.parametrize("action", [["replay"], ["drop", "--yes"]])
def test_nothing_is_done_if_one_of_the_ids_is_not_open(
    command: Command, broker: MemoryBroker, capsys: pytest.CaptureFixture[str], action: list[str]
) -> None:
    command("drop", "--yes", "0-1")
    capsys.readouterr()

    assert command(*action, "0-0", "0-1") == 1

    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("clearspan: ")
    assert "0-1" in output.err
    assert "0-0" not in output.err
    assert broker.records("spans") == []


def test_dead_letter_of_an_unread_topic_is_not_replayed(
    command: Command, broker: MemoryBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("replay", "0-0", "0-2") == 1

    assert "0-2 came from the topic old" in capsys.readouterr().err
    assert broker.records("spans") == []


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
