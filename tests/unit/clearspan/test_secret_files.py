"""Every secret can be read from a file, and nothing says what it is."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from clearspan.environment import read_client_environment, read_settings
from common.secret_files import SECRET_BYTES_MAX, UnreadableSecret, read_secret
from common.setting_types import fields_of, file_variable, secrets_of, variable_of
from common.settings import InvalidSettings, PostgresSettings, Settings

SECRET = "p%41@ss:/?#word, 'with' \"quotes\" and $signs"
PATHS = {variable_of(path): path for path, info in fields_of(Settings) if info.annotation is SecretStr}
VALUES = {"CLEARSPAN_POSTGRES__DSN": "postgresql://ada:S3CR3T@db/clearspan"}
"""Values of the secrets that not every text can be."""

NEEDED: dict[str, dict[str, str]] = {
    "CLEARSPAN_KAFKA__TLS__KEY_PASSWORD": {"CLEARSPAN_KAFKA__SECURITY_PROTOCOL": "SSL"},
    "CLEARSPAN_CLICKHOUSE__TLS__KEY_PASSWORD": {"CLEARSPAN_CLICKHOUSE__INTERFACE": "https"},
    "CLEARSPAN_KAFKA__SASL__PASSWORD": {
        "CLEARSPAN_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
        "CLEARSPAN_KAFKA__SASL__MECHANISM": "SCRAM-SHA-512",
        "CLEARSPAN_KAFKA__SASL__USERNAME": "ada",
    },
}
"""What else must be set for a secret, by its variable."""


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("CLEARSPAN_")]:
        monkeypatch.delenv(name)


def _set(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)


def _value(settings: Settings, name: str) -> str:
    found: Any = reduce(getattr, PATHS[name], settings)
    text: str = found.get_secret_value()
    return text


def test_secrets_are_found() -> None:
    assert {"CLEARSPAN_ADMIN_KEY", "CLEARSPAN_CLICKHOUSE__PASSWORD", *VALUES} <= set(PATHS) == set(secrets_of(Settings))


def test_every_setting_that_sounds_like_a_secret_is_one() -> None:
    sounding = {
        variable_of(path)
        for path, _ in fields_of(Settings)
        if path[-1].endswith(("password", "secret", "key", "dsn", "token"))
    }

    assert sounding == set(PATHS)


def test_no_setting_has_the_name_of_the_file_of_a_secret() -> None:
    names = {variable_of(path) for path, _ in fields_of(Settings)}

    assert names.isdisjoint(map(file_variable, PATHS))


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
@pytest.mark.parametrize("name", PATHS)
def test_every_secret_is_read_from_a_file(
    name: str, ending: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = VALUES.get(name, SECRET)
    (tmp_path / "secret").write_bytes(f"{secret}{ending}".encode())
    _set(monkeypatch, NEEDED.get(name, {}) | {file_variable(name): str(tmp_path / "secret"), name: ""})

    settings = read_settings()

    assert _value(settings, name) == secret
    assert secret not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"


@pytest.mark.parametrize("name", PATHS)
def test_secret_in_a_variable_and_in_a_file_stops_the_start(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("S3CR3T")
    _set(monkeypatch, {name: "S3CR3T", file_variable(name): str(tmp_path / "secret")})

    with pytest.raises(InvalidSettings) as raised:
        read_settings()

    assert str(raised.value) == f"{name} and {name}_FILE are both set: set only one of them."


@pytest.mark.parametrize("name", PATHS)
def test_missing_file_is_named(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(file_variable(name).lower(), f"{tmp_path}/nowhere")

    with pytest.raises(InvalidSettings) as raised:
        read_settings()

    reason = f"the file '{tmp_path}/nowhere' cannot be read: No such file or directory"
    assert str(raised.value) == f"{name}_FILE is invalid: {reason}."


def test_empty_name_of_a_file_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARSPAN_ADMIN_KEY", "S3CR3T")
    monkeypatch.setenv("CLEARSPAN_ADMIN_KEY_FILE", "")

    assert _value(read_settings(), "CLEARSPAN_ADMIN_KEY") == "S3CR3T"


def test_setting_that_is_no_secret_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARSPAN_API_PORT_FILE", "/run/secrets/port")

    with pytest.raises(InvalidSettings, match="CLEARSPAN_API_PORT_FILE is not a setting of Clearspan"):
        read_settings()


def test_invalid_secret_in_a_file_is_named_and_never_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mysql://ada:S3CR3T@db/clearspan")
    monkeypatch.setenv("CLEARSPAN_POSTGRES__DSN_FILE", str(tmp_path / "secret"))

    with pytest.raises(InvalidSettings, match=r"^CLEARSPAN_POSTGRES__DSN_FILE is invalid: .+ begins with") as raised:
        read_settings()

    assert "S3CR3T" not in "".join(traceback.format_exception(raised.value))


def test_invalid_secret_is_not_in_the_error_of_the_model() -> None:
    with pytest.raises(ValueError, match="begins with") as raised:
        PostgresSettings.model_validate({"dsn": "mysql://ada:S3CR3T@db"})

    assert "S3CR3T" not in str(raised.value)


def test_key_of_client_commands_is_read_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("S3CR3T\n")
    monkeypatch.setenv("CLEARSPAN_KEY_FILE", str(tmp_path / "key"))

    assert read_client_environment().key == "S3CR3T"
    assert read_settings() == Settings()
    assert "S3CR3T" not in repr(read_client_environment())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"x" * (SECRET_BYTES_MAX + 1), "is larger than 65536 bytes"),
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"\xff\xfe", "is not text in UTF-8"),
    ],
    ids=["large", "empty", "newline", "bytes"],
)
def test_file_that_holds_no_secret_is_explained(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content)

    with pytest.raises(UnreadableSecret) as raised:
        read_secret(path)

    assert str(raised.value) == f"the file '{path}' {reason}"


def test_directory_and_pipe_hold_no_secret(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null"), Path("a\0b")):
        with pytest.raises(UnreadableSecret, match=r"is not a regular file|cannot be read"):
            read_secret(path)


def test_only_the_last_newline_is_no_part_of_a_secret(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b" two\nlines\n\n")

    assert read_secret(tmp_path / "secret") == " two\nlines\n"
