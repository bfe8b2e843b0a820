"""Which peers are measured: the value of ``PEERS`` and of ``--peers``."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers.jaeger import Jaeger
from bench.peers.peer import Peer
from bench.peers.victoriatraces import VictoriaTraces

PEERS: Final[Mapping[str, type[Peer]]] = {"jaeger": Jaeger, "victoriatraces": VictoriaTraces}


class PeerChoice(NamedTuple):
    """A peer that is measured."""

    name: str
    program: Path | None
    """A program that exists already; without it, the program is built."""


def peers_of(text: str) -> Sequence[PeerChoice]:
    """Read names of peers with commas between them, each with ``=/path/to/program`` if it is not to be built.

    Raises ``ArgumentTypeError``.
    """
    choices = [_choice(item.strip()) for item in text.split(",")]
    names = [choice.name for choice in choices]
    if twice := [name for name in PEERS if names.count(name) > 1]:
        raise ArgumentTypeError(f"names {' and '.join(twice)} more than once")
    return choices


def _choice(item: str) -> PeerChoice:
    name, equals, path = item.partition("=")
    if name not in PEERS:
        raise ArgumentTypeError(f"{name!r} is not a peer; allowed are {' and '.join(PEERS)}, with commas between them")
    if equals and not Path(path).is_file():
        raise ArgumentTypeError(f"{item}: {path!r} is not a file; after = comes the path of a program of {name}")
    return PeerChoice(name, Path(path) if equals else None)
