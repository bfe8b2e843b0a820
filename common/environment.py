"""Reads the settings from the environment, and lists them. Nothing else in Clearspan reads environment variables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import SettingsError

from common.settings import PREFIX, InvalidSettings, Settings

CLIENT_URL: Final = f"{PREFIX}URL"
CLIENT_KEY: Final = f"{PREFIX}KEY"
"""The address and the key of client commands; servers ignore both."""

_JSON: Final = ("kafka", "topics")
"""The only setting that is JSON."""


def read_settings() -> Settings:
    """Read the settings of this process. Raises ``InvalidSettings`` with one sentence per problem."""
    allowed = {CLIENT_URL, CLIENT_KEY} | {_name(path) for path, _info in _fields(Settings)}
    given = [name for name in os.environ if name.upper().startswith(PREFIX)]
    if unknown := sorted(name for name in given if name.upper() not in allowed):
        sentences = [f"{name} is not a setting of Clearspan." for name in unknown]
        raise InvalidSettings(" ".join([*sentences, "`clearspan settings` lists all settings."]))
    if unreadable := [name for name in given if not _is_unicode(os.environ[name])]:
        raise InvalidSettings(" ".join(f"{name} is invalid: Input should be text in UTF-8." for name in unreadable))
    try:
        return Settings()
    except ValidationError as exc:
        raise InvalidSettings(" ".join(_sentence(error) for error in exc.errors())) from exc
    except SettingsError as exc:  # names the group, not the setting
        raise InvalidSettings(f"{_name(_JSON)} is invalid: Input should be a JSON object.") from exc


@dataclass(frozen=True, slots=True)
class ClientEnvironment:
    """Which API client commands speak to, and with which key; empty if the environment does not say."""

    url: str
    key: str


def read_client_environment() -> ClientEnvironment:
    """Read what belongs to client commands."""
    return ClientEnvironment(url=os.environ.get(CLIENT_URL, ""), key=os.environ.get(CLIENT_KEY, ""))


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
        SettingLine(_name(path), _default_text(info), _allowed_text(info), " ".join((info.description or "").split()))
        for path, info in _fields(Settings)
    ]


def _fields(model: type[BaseModel], above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], FieldInfo]]:
    fields: list[tuple[tuple[str, ...], FieldInfo]] = []
    for name, info in model.model_fields.items():
        group = info.annotation
        if isinstance(group, type) and issubclass(group, BaseModel):
            fields += _fields(group, (*above, name))
        else:
            fields.append(((*above, name), info))
    return fields


def _name(path: Sequence[object]) -> str:
    return PREFIX + "__".join(str(part) for part in path).upper()


def _default_text(info: FieldInfo) -> str:
    default = info.get_default(call_default_factory=True)
    if default is None:
        return ""
    if isinstance(default, SecretStr):
        return default.get_secret_value()
    if isinstance(default, dict):
        return json.dumps({name: value.model_dump(mode="json", exclude_none=True) for name, value in default.items()})
    return str(default)


def _allowed_text(info: FieldInfo) -> str:
    if get_origin(info.annotation) is Literal:
        return ", ".join(str(value) for value in get_args(info.annotation))
    signs = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))
    bounds = [f"{sign} {getattr(rule, name)}" for rule in info.metadata for name, sign in signs if hasattr(rule, name)]
    return ", ".join(bounds)


def _sentence(error: Mapping[str, object]) -> str:
    path = error["loc"] if isinstance(error["loc"], tuple) else ()
    if path[:2] != _JSON:
        return f"{_name(path)} is invalid: {error['msg']}."
    topic = "".join([f"{name!r}" for name in path[2:3]] + [f".{name}" for name in path[3:]])
    return f"{_name(_JSON)} is invalid: {topic}{': ' if topic else ''}{error['msg']}."
