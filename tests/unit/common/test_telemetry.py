from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from common.telemetry import configure_logging, get_logger


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def test_json_line_has_event_logger_time_and_level(stream: io.StringIO) -> None:
    configure_logging(log_format="json", level="info", stream=stream)

    get_logger("ingest.worker").info("Partitions assigned.", partitions=3)

    line = json.loads(stream.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "Partitions assigned.", "partitions": 3, "level": "info", "logger": "ingest.worker"}


def test_lines_of_libraries_have_the_same_format(stream: io.StringIO) -> None:
    configure_logging(log_format="json", level="info", stream=stream)

    logging.getLogger("aiokafka").warning("Heartbeat failed for %s", "g")

    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"], line["logger"]) == ("Heartbeat failed for g", "warning", "aiokafka")


def test_exception_is_in_the_line(stream: io.StringIO) -> None:
    configure_logging(log_format="json", level="info", stream=stream)

    try:
        int("boom")
    except ValueError:
        get_logger("x").exception("Failed.")

    assert "ValueError: invalid literal" in json.loads(stream.getvalue())["exception"]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_exception_contains_no_values(stream: io.StringIO, log_format: Literal["text", "json"]) -> None:
    """Values may be secrets, and formatting the body of a request takes minutes."""
    configure_logging(log_format=log_format, level="info", stream=stream)

    def fail() -> None:
        number_of_secret = int("4711") * 10_000_019
        raise ValueError(f"boom {number_of_secret % 2}")

    try:
        fail()
    except ValueError:
        get_logger("x").exception("Failed.")

    assert "ValueError: boom 1" in stream.getvalue()
    assert str(4711 * 10_000_019) not in stream.getvalue()


HOSTILE = "ok\n2026-01-01T00:00:00Z [info     ] Forged. \x1b]0;title\x07\x1b[2J\r\x9b31m\u202e\u2028\ud800"


def _log_hostile_texts() -> None:
    """Log a text from outside at every place of a line."""
    logger = get_logger("x")
    logger.warning("A subscription was paused.", reason=HOSTILE)
    logger.warning("From %s", HOSTILE, **{"of": [HOSTILE], "by": {HOSTILE: HOSTILE}, HOSTILE: ValueError(HOSTILE)})
    logging.getLogger("library").warning("Answered %s", HOSTILE)
    logger.error("Failed.", exc_info=_raised(HOSTILE))


def _raised(message: str) -> Exception:
    """Return an exception with a traceback."""

    def fail() -> None:
        raise ValueError(message)

    with pytest.raises(ValueError) as raised:  # noqa: PT011 - its message is the argument
        fail()
    return raised.value


def test_text_from_outside_begins_no_line_and_commands_no_terminal(stream: io.StringIO) -> None:
    configure_logging(log_format="text", level="info", stream=stream)

    _log_hostile_texts()

    lines = stream.getvalue().removesuffix("\n").split("\n")
    assert all(line.isprintable() for line in lines), lines
    begins = [line for line in lines if not line.startswith(" ")]
    assert [line.split("] ")[1].split(" ")[0] for line in begins] == ["A", "From", "Answered", "Failed."]
    assert [line for line in lines if "Forged." in line and line.startswith("2026-01-01")] == []
    assert "\\x1b[2J" in lines[0]
    assert "    ValueError: ok" in lines


def test_traceback_has_a_line_for_each_frame(stream: io.StringIO) -> None:
    configure_logging(log_format="text", level="info", stream=stream)

    _log_hostile_texts()

    traceback = stream.getvalue().split("Failed.")[1].splitlines()[1:]
    assert traceback[0] == "    Traceback (most recent call last):"
    assert traceback[1].startswith("      File ")


def test_text_from_outside_is_one_line_of_json(stream: io.StringIO) -> None:
    configure_logging(log_format="json", level="info", stream=stream)

    _log_hostile_texts()

    lines = stream.getvalue().removesuffix("\n").split("\n")
    assert all(line.isprintable() and line.isascii() for line in lines)
    assert json.loads(lines[0])["reason"] == HOSTILE
    assert len(lines) == 4


def test_bound_context_is_in_every_line(stream: io.StringIO) -> None:
    configure_logging(log_format="json", level="info", stream=stream)

    with structlog.contextvars.bound_contextvars(request_id="r1"):
        get_logger("x").info("One.")

    assert json.loads(stream.getvalue())["request_id"] == "r1"


def test_lines_below_the_level_are_not_written(stream: io.StringIO) -> None:
    configure_logging(log_format="text", level="warning", stream=stream)

    get_logger("x").info("quiet")
    get_logger("x").warning("loud")

    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()
