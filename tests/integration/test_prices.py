"""A custom price file: on the command line, at the start of the worker, in the decoder process."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from clearspan.cli import main
from clearspan.console import NOTHING_FOUND
from clearspan.embedded.stack import embedded_settings
from clearspan.environment import read_settings
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Partition, Record
from common.limits import SpanLimits
from common.prices.file import list_prices, read_prices
from common.settings import Encoding, TopicSettings
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk
from ingest.decoding.decoder import open_decoder
from ingest.policy import Policy

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
    assert printed["model"].startswith("gpt-4o-mini")
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


NEWER = "# as of 2026-12-01\n" + PRICES.replace("me,my-model,1,,,2", "me,my-model,1,0.5,,3") + "me,new-model,1,,,2\n"


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the data directory to one that does not exist yet."""
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def a_newer_file(folder: Path, text: str = NEWER) -> Path:
    path = folder / "newer.csv"
    path.write_text(text)
    return path


def test_update_replaces_the_file_of_the_setting(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own.write_text(PRICES + "me,old-model,1,,,2\n")

    assert run("update", str(a_newer_file(own.parent))) == 0

    printed = capsys.readouterr().out
    assert printed.startswith("2 models, prices 2026-12-01 (before: 2, prices prices.csv)\n")
    assert "added: 1\n  new-model  input 1, cached_input 1, cache_write 1, output 2\n" in printed
    assert "changed: 1\n  my-model  cached_input 1 → 0.5, output 2 → 3\n" in printed
    assert "removed: 1 (--keep keeps them)\n  old-model\n" in printed
    assert f"Written to {own}. Restart the workers" in printed
    assert [price.model for price in read_prices(own).prices] == ["my-model", "new-model"]
    assert read_prices(own).source == "prices 2026-12-01"


def test_update_writes_to_the_data_directory_without_a_setting(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("update", "--keep", str(a_newer_file(tmp_path))) == 0
    assert f"Written to {data_dir / 'prices.csv'}" in capsys.readouterr().out

    assert run("--model", "new-model", "--json") == 0
    assert orjson.loads(capsys.readouterr().out)["source"] == "prices 2026-12-01"
    assert run("--model", "gpt-4o-mini") == 0  # kept


def test_update_takes_price_data_of_a_package(data_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "model_prices_and_context_window.json"
    path.write_bytes(
        orjson.dumps({"gpt-9": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1e-6}})
    )

    assert run("update", "--as-of", "2026-12-02", str(path)) == 0

    table = read_prices(data_dir / "prices.csv")
    assert (table.source, table.price_of("gpt-9")) == ("prices 2026-12-02", ("openai", "gpt-9", 1, 1, 1, 0))


def test_update_can_only_show_what_would_change(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("update", "--dry-run", "--json", str(a_newer_file(own.parent))) == 0

    assert [orjson.loads(line)["change"] for line in capsys.readouterr().out.splitlines()] == ["added", "changed"]
    assert own.read_text() == PRICES


@pytest.mark.usefixtures("data_dir")
def test_update_says_that_a_file_is_older(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_newer_file(tmp_path, NEWER.replace("2026-12-01", "2020-01-01"))

    assert run("update", "--dry-run", str(path)) == 0
    assert "These prices are of 2020-01-01, older than those of" in capsys.readouterr().err


@pytest.mark.parametrize("text", [PRICES + "me,other,cheap,,,2\n", "", "{}"])
def test_update_from_a_bad_file_changes_nothing(own: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("update", str(a_newer_file(own.parent, text))) == 2

    assert "newer.csv" in capsys.readouterr().err
    assert own.read_text() == PRICES
    assert sorted(path.name for path in own.parent.iterdir()) == ["newer.csv", "prices.csv"]


def test_update_names_a_file_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").write_text("a file")
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path / "data"))

    assert run("update", str(a_newer_file(tmp_path))) == 1
    assert "prices.csv cannot be written: " in capsys.readouterr().err


def test_worker_of_the_embedded_stack_reads_the_updated_file(data_dir: Path, tmp_path: Path) -> None:
    run("update", str(a_newer_file(tmp_path)))

    policy = Policy.of(embedded_settings(read_settings()))

    assert policy.rules.prices.source == "prices 2026-12-01"
