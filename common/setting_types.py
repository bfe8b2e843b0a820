"""What the groups of settings are made of: the base class, types with their checks, and the names of variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

PREFIX: Final = "CLEARSPAN_"

FILE_SUFFIX: Final = "_FILE"
"""Ends the name of the variable that names the file with a secret."""

_SERVER: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(?P<port>[0-9]{1,5}))?|[0-9A-Fa-f:.]+", re.ASCII)
"""A host or an address; an IPv6 address is in brackets if a port follows."""
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
ANY_ORIGIN: Final = "*"
_HOST: Final = re.compile(r"[\w.-]+")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _servers(text: str) -> str:
    for server in text.split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or int(found["port"] or 1) not in range(1, 65_536):
            raise PydanticCustomError("servers", "Input should be host:port, comma separated")
    return text


def _hosts(text: str) -> str:
    for host in map(str.strip, text.split(",")):
        with suppress(ValueError):  # an IPv6 address, the only host that contains a colon
            ip_address(host.removeprefix("[").removesuffix("]"))
            continue
        if not _HOST.fullmatch(host):
            raise PydanticCustomError("host", "Input should be a host or an address, without scheme and port")
    return text


def _origins(text: str) -> str:
    for origin in origins_of(text):
        if origin != ANY_ORIGIN and not _ORIGIN.fullmatch(origin):
            raise PydanticCustomError("origins", "Input should be origins such as https://example.org, comma separated")
    return text


@lru_cache(maxsize=64)
def origins_of(text: str) -> frozenset[str]:
    """Return the origins in a setting, as browsers send them."""
    return frozenset(origin.strip().lower() for origin in text.split(",")) - {""}


def _directory(path: object) -> object:
    if path == "":
        raise PydanticCustomError("directory", "Input should be the path of a directory")
    return path


def checked_topic(name: str) -> str:
    """Return the name of a topic. Raises ``PydanticCustomError``."""
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise PydanticCustomError("topic", "Input should be a valid Kafka topic: 1 to 249 of A-Z a-z 0-9 . _ -")
    return name


Port = Annotated[int, Field(ge=0, le=65_535)]
Name = Annotated[str, Field(min_length=1)]
"""An empty host would listen on every address of the machine; Kafka has no empty group."""
Origins = Annotated[str, AfterValidator(_origins)]
Hosts = Annotated[str, AfterValidator(_hosts)]
Servers = Annotated[str, AfterValidator(_servers)]
Directory = Annotated[Path, BeforeValidator(_directory)]
Topic = Annotated[str, AfterValidator(checked_topic)]
File = Annotated[Path | None, BeforeValidator(lambda path: None if path == "" else path)]


class Group(BaseModel):
    """A group of settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True)


def load_function(name: str) -> Callable[[], Any]:
    """Return the function ``module:function``. Raises ``ValueError``, which says why there is none."""
    module, _, attribute = name.partition(":")
    try:
        function = getattr(import_module(module), attribute)
    except Exception as exc:  # whatever the module raises while it is loaded
        raise ValueError(f"{name} cannot be loaded: {type(exc).__name__}: {exc}") from exc
    if not callable(function):
        raise ValueError(f"{name} is not a function")  # noqa: TRY004 - a wrong setting, not a wrong argument
    loaded: Callable[[], Any] = function
    return loaded


def fields_of(model: type[BaseModel], above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], FieldInfo]]:
    """Return the settings of a model with their paths, in its order."""
    fields: list[tuple[tuple[str, ...], FieldInfo]] = []
    for name, info in model.model_fields.items():
        group = info.annotation
        if isinstance(group, type) and issubclass(group, BaseModel):
            fields += fields_of(group, (*above, name))
        else:
            fields.append(((*above, name), info))
    return fields


def variable_of(path: Sequence[object]) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + "__".join(str(part) for part in path).upper()


def secrets_of(model: type[BaseModel]) -> list[str]:
    """Return the variables of all settings that are secrets, in the order of the model."""
    return [variable_of(path) for path, info in fields_of(model) if info.annotation is SecretStr]


def file_variable(name: str) -> str:
    """Return the variable that names the file with this secret."""
    return f"{name}{FILE_SUFFIX}"
