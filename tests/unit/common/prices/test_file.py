"""Files of prices: what they hold, what is wrong in them, and which one is used."""

from __future__ import annotations

import pickle
from datetime import date
from pathlib import Path

import pytest

from common.prices.file import (
    LIST_PRICES,
    PRICES_MAX,
    InvalidPrices,
    file_of,
    list_prices,
    own_file,
    prices_of,
    prices_path,
    read_prices,
)
from common.prices.table import MODEL_CHARS_MAX
from common.settings import IngestSettings, InvalidSettings, Settings

HEADER = "provider,model,input,cached_input,cache_write,output\n"


def a_file(folder: Path, *lines: str) -> Path:
    path = folder / "prices.csv"
    path.write_text(HEADER + "".join(line + "\n" for line in lines))
    return path


def test_built_in_table_is_dated_and_unambiguous() -> None:
    table = list_prices()

    assert table.source.startswith("prices 20")
    assert all(table.price_of(price.model) == price for price in table.prices)
    assert all(price.cached_input <= price.input for price in table.prices)


def test_table_can_be_sent_to_other_processes() -> None:
    table = list_prices()
    table.price_of("gpt-4o")

    assert pickle.loads(pickle.dumps(table)).price_of("gpt-4o-mini") == table.price_of("gpt-4o-mini")


def test_remembered_names_are_bounded() -> None:
    table = read_prices(LIST_PRICES)

    for number in range(10_000):
        assert table.price_of(f"model {number}") is None
    assert len(table._remembered) <= 4_096


def test_custom_file_replaces_the_table(tmp_path: Path) -> None:
    path = a_file(tmp_path, "", "# as of 2026-11-21", "me, My-Model ,1,,,2")

    table = read_prices(path)

    assert table.source == "prices 2026-11-21"
    assert table.price_of("my-model") == ("me", "my-model", 1, 1, 1, 2)
    assert table.price_of("gpt-4o") is None


def test_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = a_file(tmp_path, "me,mine,1,,,2")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())

    assert read_prices(path).price_of("mine") is not None


def test_file_without_a_date_is_identified_by_its_name(tmp_path: Path) -> None:
    assert read_prices(a_file(tmp_path, "me,mine,0,,,")).source == "prices prices.csv"


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            ["me,mine,1,,,2", "me,yours,x,,,2"],
            r"prices\.csv, line 3: input must be a number of US dollars .* not 'x'\.",
        ),
        (["me,mine,-1,,,2"], r"line 2: input must be a number"),
        (["me,mine,nan,,,2"], r"line 2: input must be a number"),
        (
            ["me,mine,1000001,,,2"],
            r"line 2: input must be a number of US dollars between 0 and 1,000,000, not '1000001'\.",
        ),
        (["me,mine,,,,2"], r"line 2: input must be a number of US dollars, not empty\."),
        (["me,mine,1,2"], r"line 2: 4 values; there must be 6, some of them empty\."),
        (["me,,1,,,2"], r"line 2: the name of the model is missing\."),
        (["me,mine,1,,,2", "", "# again", "me,Mine,1,,,2"], r"line 5: mine has a price already\."),
        ([], r"holds no prices\."),
    ],
)
def test_bad_line_is_named(tmp_path: Path, lines: list[str], sentence: str) -> None:
    with pytest.raises(InvalidPrices, match=sentence):
        read_prices(a_file(tmp_path, *lines))


def test_file_without_its_header_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("# comment\nme,mine,1,,,2\n")

    with pytest.raises(InvalidPrices, match=r"line 2: the first line must be 'provider,model,input"):
        read_prices(path)


def test_unreadable_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"nowhere\.csv cannot be read"):
        read_prices(tmp_path / "nowhere.csv")


def test_model_name_has_a_limit(tmp_path: Path) -> None:
    table = read_prices(a_file(tmp_path, f"me,{'m' * MODEL_CHARS_MAX},1,,,"))

    assert table.price_of("m" * MODEL_CHARS_MAX) is not None
    assert table.price_of("a/" + "m" * MODEL_CHARS_MAX) is None
    with pytest.raises(InvalidPrices, match="the name of the model has 257 characters; 256 are allowed"):
        read_prices(a_file(tmp_path, f"me,{'m' * (MODEL_CHARS_MAX + 1)},1,,,"))


def test_file_has_a_limit(tmp_path: Path) -> None:
    rows = [f"me,m{number},1,,," for number in range(PRICES_MAX + 1)]

    assert len(read_prices(a_file(tmp_path, *rows[:-1])).prices) == PRICES_MAX
    with pytest.raises(InvalidPrices, match="more than 10,000 prices"):
        read_prices(a_file(tmp_path, *rows))


@pytest.mark.parametrize(
    ("comment", "day"),
    [
        ("# as of 2026-11-21", date(2026, 11, 21)),
        ("# as of 2026-03", date(2026, 3, 1)),
        ("# as of spring", None),
        ("", None),
    ],
)
def test_day_of_the_prices_is_in_a_comment(tmp_path: Path, comment: str, day: date | None) -> None:
    assert read_prices(a_file(tmp_path, comment, "me,mine,1,,,2")).as_of == day


def test_written_file_holds_the_same_table(tmp_path: Path) -> None:
    rows = ["me,mine,1,,,2", "me,small,0.000001,0.5,0.25,", '"a, b","c ""d""",3,3,3,3', "me,free,0,,,"]
    table = read_prices(a_file(tmp_path, "# as of 2026-11-21", *rows))
    path = tmp_path / "written.csv"
    path.write_text(file_of(table, ["From a test."]))

    assert read_prices(path) == table
    assert path.read_text().splitlines()[:2] == ["# From a test.", "# as of 2026-11-21"]
    assert "me,mine,1,,,2" in path.read_text()


def test_file_of_the_data_directory_replaces_the_table(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)

    assert (prices_path(settings), prices_of(settings)) == (LIST_PRICES, list_prices())
    path = a_file(tmp_path, "me,mine,1,,,2")
    assert own_file(settings) == prices_path(settings) == path
    assert prices_of(settings).price_of("mine") is not None


def test_file_of_the_setting_is_used_even_if_it_is_missing(tmp_path: Path) -> None:
    a_file(tmp_path, "me,mine,1,,,2")
    path = tmp_path / "other.csv"
    settings = Settings(data_dir=tmp_path, ingest=IngestSettings(prices_file=path))

    assert prices_path(settings) == own_file(settings) == path
    with pytest.raises(InvalidPrices, match=r"other\.csv cannot be read"):
        prices_of(settings)
