"""Reading a secret from a file: what Docker and Kubernetes mount, or what a tool renews while a process runs."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path
from typing import Final

from common.limits import KIB

SECRET_BYTES_MAX: Final = 64 * KIB
"""Largest secret: a token with many claims takes a few KiB."""


class UnreadableSecret(Exception):
    """A secret cannot be read. The message says why, in words, and quotes nothing of the file."""


def read_secret(path: Path, /) -> str:
    """Return the text of a file without the newline at its end. Raises ``UnreadableSecret``."""
    try:
        content = _content(path)
    except OSError as exc:
        raise UnreadableSecret(f"the file {str(path)!r} cannot be read: {exc.strerror}") from None
    except ValueError as exc:  # a path with a null byte
        raise UnreadableSecret(f"the file {str(path)!r} cannot be read: {exc}") from None
    if len(content) > SECRET_BYTES_MAX:
        raise UnreadableSecret(f"the file {str(path)!r} is larger than {SECRET_BYTES_MAX} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise UnreadableSecret(f"the file {str(path)!r} is not text in UTF-8") from None
    secret = text.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise UnreadableSecret(f"the file {str(path)!r} is empty")
    return secret


def _content(path: Path) -> bytes:
    """Return at most one byte more than a secret may have. Opening a pipe without a writer does not wait."""
    with closing(os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnreadableSecret(f"{str(path)!r} is not a regular file")
        return file.read(SECRET_BYTES_MAX + 1)
