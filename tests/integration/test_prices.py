"""A custom price file: on the command line, at the start of the worker, in the decoder process."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from clearspan.cli import main
from clearspan.console import NOTHING_FOUND
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Partition, Record
from common.limits import SpanLimits
from common.prices.file import list_prices, read_prices
from common.settings import Encoding, TopicSettings
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk
from ingest.decoding.decoder import open_decoder

PRICES = "provider,model,input,cached_input,cache_write,output\nme,my-model,1,,,2\n"
NOW_NS = 1_795_260_000_000_000_000
SETTING = "CLEARSPAN_INGEST__PRICES_FILE"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a price file, and set the setting that names it."""
    path = tmp_path / "prices.csv"
    path.write_text(PRICES)
    monkeypatch.setenv(SETTING, str(path))
    return path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["prices", *arguments])
    code = ended.value.code
    assert isinstance(code, int)
    return code


def test_prices_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0

    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{len(list_prices().prices)} models, {list_prices().source}, US dollars per 1,000,000 tokens"
    assert [line.split() for line in printed if " gpt-4o-mini " in line] == [
        ["openai", "gpt-4o-mini", "0.15", "0.075", "0.15", "0.6"]
    ]


def test_model_is_printed_with_its_row_and_the_cost_of_1000_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--model", "openai/gpt-4o-mini-2024-07-18", "--json") == 0

    printed = orjson.loads(capsys.readouterr().out)
    assert printed["model"] == "gpt-4o-mini"
    assert printed["cost_of_1000_tokens"] == {"prompt": 0.00015, "completion": 0.0006}


def test_unknown_model_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--model", "nobody's") == NOTHING_FOUND
    assert "its calls get no cost" in capsys.readouterr().err


def test_csv_of_one_model_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--csv", "--model", "gpt-4o-mini") == 2
    assert "--csv prints the whole file" in capsys.readouterr().err


def test_printed_copy_can_be_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("--csv") == 0

    copied = tmp_path / "copy.csv"
    copied.write_text(capsys.readouterr().out)
    assert read_prices(copied).prices == list_prices().prices


@pytest.mark.usefixtures("own")
def test_custom_file_is_printed_instead(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json") == 0

    assert [orjson.loads(line)["model"] for line in capsys.readouterr().out.splitlines()] == ["my-model"]


@pytest.mark.parametrize("command", ["prices", "ingest"])
def test_bad_line_stops_the_start_with_a_sentence(own: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    own.write_text(PRICES + "me,other,cheap,,,2\n")

    with pytest.raises(SystemExit) as ended:
        main([command])

    assert ended.value.code == 2
    assert f"{own}, line 3: input must be a number of US dollars" in capsys.readouterr().err


@pytest.mark.parametrize("processes", [0, 1])
async def test_custom_prices_reach_the_decoder(own: Path, processes: int) -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.model": "my-model",
        "gen_ai.usage.input_tokens": 1_000_000,
        "gen_ai.usage.output_tokens": 500_000,
    }
    rules = Rules({"t": TopicSettings(encoding=Encoding.SPAN_JSON)}, SpanLimits(), DEFAULT_PROJECT_ID, read_prices(own))
    span = {"trace_id": "1" * 32, "span_id": "1" * 16, "start_time": "2026-11-21T12:00:00Z", "attributes": attributes}
    record = Record("t", 0, 0, 5, b"key", orjson.dumps(span), ())
    decoder = await open_decoder(rules, processes=processes)

    opened = await decoder.decode(Chunk([record], {Partition("t", 0): "c/t/0"}, NOW_NS))
    await decoder.close()

    assert opened.rows.column("costs_total").to_pylist() == [2.0]
