"""What the measurement needs to know of a peer."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

from bench.queries import Stored


class GoProgram(NamedTuple):
    """A program of a Go module, and the version that is measured."""

    package: str
    version: str


class PeerQuery(NamedTuple):
    """A query of a peer that is sent again and again with other values."""

    make_path: Callable[[random.Random], str]
    """Return the path of a GET request."""

    count_spans: Callable[[bytes], int]
    """Return how many spans a response holds."""

    spans_max: int
    """The number of spans of a full response."""


class PeerError(Exception):
    """A peer did not start, lost spans or gave another response than expected."""


class Peer(Protocol):
    """A system that stores spans. An instance stands for one run of its program, on free ports of loopback."""

    title: ClassVar[str]
    """The column in the report."""

    source: ClassVar[GoProgram]
    quiet_s: ClassVar[float]
    """How long its process must be idle until everything is stored; longer than its pauses between two flushes."""

    def __init__(self, data: Path) -> None:
        """Choose the ports. ``data`` is the directory of everything that the program stores."""

    def arguments(self) -> Sequence[str]:
        """Return the arguments of the program."""

    def environment(self) -> Mapping[str, str]:
        """Return the environment variables that the program needs in addition."""

    def intake_url(self) -> str:
        """Return where OTLP/HTTP requests are posted."""

    def ready_url(self) -> str:
        """Return what responds as soon as the program is ready."""

    def query_address(self) -> str:
        """Return host and port of the query API."""

    def dropped_count(self) -> int:
        """Return how many spans were accepted and then dropped."""

    def queries(self, stored: Stored) -> Mapping[str, PeerQuery]:
        """Return the queries, by the names of ``bench/queries.py``."""
