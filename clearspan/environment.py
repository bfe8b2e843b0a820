"""Reads the settings from the environment, and lists them. Nothing else in Clearspan reads environment variables."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import SettingsError

from common.secret_files import UnreadableSecret, read_secret
from common.setting_types import PREFIX, fields_of, file_variable, load_function, secrets_of, variable_of
from common.settings import InvalidSettings, Settings
from common.tls import TlsSettings, UnusableCertificate, tls_context

CLIENT_URL: Final = f"{PREFIX}URL"
CLIENT_KEY: Final = f"{PREFIX}KEY"
"""The address and the key of client commands; servers ignore both."""

_JSON: Final = ("kafka", "topics")
"""The only setting that is JSON."""


def read_settings() -> Settings:
    """Read the settings of this process. Raises ``InvalidSettings`` with one sentence per problem."""
    secrets = secrets_of(Settings)
    paths = {variable_of(path): path for path, _info in fields_of(Settings)}
    allowed = {CLIENT_URL, CLIENT_KEY, *map(file_variable, [CLIENT_KEY, *secrets]), *paths}
    given = [name for name in os.environ if name.upper().startswith(PREFIX)]
    if unknown := sorted(name for name in given if name.upper() not in allowed):
        sentences = [f"{name} is not a setting of Clearspan." for name in unknown]
        raise InvalidSettings(" ".join([*sentences, "`clearspan settings` lists all settings."]))
    if unreadable := [name for name in given if not _is_unicode(os.environ[name])]:
        raise InvalidSettings(" ".join(f"{name} is invalid: Input should be text in UTF-8." for name in unreadable))
    texts = {name.upper(): os.environ[name] for name in given}
    files = _secret_files(texts, secrets)
    from_files = _nested({paths[name]: _read(file_variable(name), path) for name, path in files.items()})
    try:
        settings = Settings(**from_files)
    except ValidationError as exc:
        errors = exc.errors(include_input=False)
        # Not chained: the error of pydantic quotes what was given, and that may be a secret.
        raise InvalidSettings(" ".join(_sentence(error, files) for error in errors)) from None
    except SettingsError as exc:  # names the group, not the setting
        raise InvalidSettings(f"{variable_of(_JSON)} is invalid: Input should be a JSON object.") from exc
    _check_connections(settings)
    return settings


def _check_connections(settings: Settings) -> None:
    """Raise ``InvalidSettings`` for certificates that cannot be used, and for a function that does not exist."""
    if settings.kafka.has_tls:
        _check_certificates(settings.kafka.tls, ("kafka", "tls"))
    if settings.clickhouse.interface == "https":
        _check_certificates(settings.clickhouse.tls, ("clickhouse", "tls"))
    if settings.postgres.tls.is_set:
        _check_certificates(settings.postgres.tls, ("postgres", "tls"))
    if name := settings.kafka.sasl.token_function:
        try:
            load_function(name)
        except ValueError as exc:
            raise InvalidSettings(f"{variable_of(('kafka', 'sasl', 'token_function'))} is invalid: {exc}.") from exc


def _check_certificates(tls: TlsSettings, path: tuple[str, ...]) -> None:
    try:
        tls_context(tls)
    except UnusableCertificate as exc:
        raise InvalidSettings(f"{variable_of((*path, exc.member))} is invalid: {exc}.") from None


@dataclass(frozen=True, slots=True)
class ClientEnvironment:
    """Which API client commands speak to, and with which key; empty if the environment does not say."""

    url: str
    key: str = field(repr=False)


def read_client_environment() -> ClientEnvironment:
    """Read what belongs to client commands. Raises ``InvalidSettings`` if the file of the key cannot be read."""
    files = _secret_files(os.environ, [CLIENT_KEY])
    key = _read(file_variable(CLIENT_KEY), files[CLIENT_KEY]) if files else os.environ.get(CLIENT_KEY, "")
    return ClientEnvironment(url=os.environ.get(CLIENT_URL, ""), key=key)


def _secret_files(texts: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return the path of each secret that is in a file, by the variable of the secret.

    An empty variable counts as absent: Docker Compose passes on variables that nobody has set as empty ones.
    """
    files = {name: path for name in names if (path := texts.get(file_variable(name)))}
    if both := [name for name in files if texts.get(name)]:
        sentences = (f"{name} and {file_variable(name)} are both set: set only one of them." for name in both)
        raise InvalidSettings(" ".join(sentences))
    return files


def _read(variable: str, path: str) -> str:
    try:
        return read_secret(Path(path))
    except UnreadableSecret as exc:
        raise InvalidSettings(f"{variable} is invalid: {exc}.") from None


def _nested(values: Mapping[tuple[str, ...], str]) -> dict[str, Any]:
    """Return values by their paths as groups of settings."""
    groups: dict[str, Any] = {}
    for path, value in values.items():
        group = groups
        for part in path[:-1]:
            group = group.setdefault(part, {})
        group[path[-1]] = value
    return groups


def _is_unicode(text: str) -> bool:
    """Return whether all bytes of a text of the system were UTF-8; Python decodes others as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


@dataclass(frozen=True, slots=True)
class SettingLine:
    """One setting, as people read it."""

    name: str
    default: str
    allowed: str
    meaning: str


def describe_settings() -> list[SettingLine]:
    """Return every setting with its default, allowed values and meaning, in the order of the model."""
    return [
        SettingLine(
            variable_of(path),
            _default_text(info),
            _allowed_text(variable_of(path), info),
            " ".join((info.description or "").split()),
        )
        for path, info in fields_of(Settings)
    ]


def _default_text(info: FieldInfo) -> str:
    default = info.get_default(call_default_factory=True)
    if default is None:
        return ""
    if isinstance(default, SecretStr):
        return default.get_secret_value()
    if isinstance(default, dict):
        return json.dumps(
            {name: value.model_dump(mode="json", exclude_defaults=True) for name, value in default.items()}
        )
    return str(default)


def _allowed_text(name: str, info: FieldInfo) -> str:
    if info.annotation is SecretStr:
        return f"text, or a file: {file_variable(name)}"
    if get_origin(info.annotation) is Literal:
        return ", ".join(str(value) for value in get_args(info.annotation))
    signs = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))
    bounds = [f"{sign} {getattr(rule, name)}" for rule in info.metadata for name, sign in signs if hasattr(rule, name)]
    return ", ".join(bounds)


def _sentence(error: Mapping[str, Any], files: Collection[str]) -> str:
    """Return what is wrong. ``files`` are the secrets that were read from files."""
    path = error["loc"]
    if path[:2] != _JSON:
        name = variable_of([step for step in path if not isinstance(step, int)])
        place = "".join(f"[{step}]: " for step in path if isinstance(step, int))
        if any(error["type"] == group for group in ("tls", "sasl")):
            name += "__…"
        return f"{file_variable(name) if name in files else name} is invalid: {place}{error['msg']}."
    topic = "".join([f"{name!r}" for name in path[2:3]] + [f".{name}" for name in path[3:]])
    return f"{variable_of(_JSON)} is invalid: {topic}{': ' if topic else ''}{error['msg']}."
