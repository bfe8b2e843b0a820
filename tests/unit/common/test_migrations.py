from __future__ import annotations

from pathlib import Path

import pytest

from common.migrations import InvalidMigration, Migration, is_behind, load_migrations, pending

ONE = Migration(1, "one", "SELECT 1", "a" * 64)
TWO = Migration(2, "two", "SELECT 2", "b" * 64)


def test_files_are_loaded_in_the_order_of_their_numbers(tmp_path: Path):
    for name in ("0010_ten.sql", "0002_two_words.sql", "0001_one.sql"):
        (tmp_path / name).write_text("SELECT 1;")

    loaded = load_migrations(tmp_path)

    assert [(migration.number, migration.name) for migration in loaded] == [(1, "one"), (2, "two_words"), (10, "ten")]
    assert loaded[0].sha256 == "17db4fd369edb9244b9f91d9aeed145c3d04ad8ba6e95d06247f07a63527d11a"


def test_two_files_with_the_same_number_are_rejected(tmp_path: Path):
    (tmp_path / "0001_a.sql").touch()
    (tmp_path / "0001_b.sql").touch()

    with pytest.raises(InvalidMigration, match="a and b have the same number 1"):
        load_migrations(tmp_path)


@pytest.mark.parametrize("name", ["first.sql", "0001.sql", "0001_.sql", "x001_a.sql"])
def test_file_without_number_or_name_is_rejected(tmp_path: Path, name: str):
    (tmp_path / name).touch()

    with pytest.raises(InvalidMigration, match=name):
        load_migrations(tmp_path)


def test_files_that_are_not_applied_are_pending():
    assert pending([ONE, TWO], {}, database="Postgres") == [ONE, TWO]
    assert pending([ONE, TWO], {1: ONE.sha256}, database="Postgres") == [TWO]
    assert pending([ONE, TWO], {1: ONE.sha256, 2: TWO.sha256}, database="Postgres") == []


def test_changed_file_is_named_in_the_error():
    with pytest.raises(InvalidMigration, match=r"0001_one\.sql was changed"):
        pending([ONE, TWO], {1: "c" * 64}, database="Postgres")


def test_database_ahead_of_the_program_is_rejected_when_migrating():
    with pytest.raises(InvalidMigration, match="0002 is applied to Postgres but not part of this program"):
        pending([ONE], {1: ONE.sha256, 2: TWO.sha256}, database="Postgres")


def test_database_ahead_of_the_program_is_not_behind(tmp_path: Path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, names in ((one, ["0001_one.sql"]), (two, ["0001_one.sql", "0002_two.sql"])):
        folder.mkdir()
        for name in names:
            (folder / name).touch()

    assert is_behind(two, [])
    assert is_behind(two, [2])
    assert not is_behind(two, [2, 1])
    assert not is_behind(one, [1, 2])
