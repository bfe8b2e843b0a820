"""The command lines of the measurements: a few numbers with defaults, which ``--help`` describes."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable
from typing import Any, Final

from bench.varied import SETS

HELP: Final = {
    "spans_count": "how many spans are stored or decoded",
    "times": "how often each query is sent",
    "rounds": "how many runs; the figures are medians",
    "seconds": "how many seconds each phase takes",
}
"""The numbers that measurements take, by the name of the parameter."""


def parser_of(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of ``python -m bench.<name>``; the description keeps its lines."""
    formatter = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=f"python -m bench.{name}", description=description, formatter_class=formatter)


def numbers(measure: Callable[..., Any]) -> list[Any]:
    """Return the numbers of the command line for the parameters of ``measure``, a function of the running module."""
    module = sys.modules[measure.__module__]
    parser = parser_of(module.__spec__.name.removeprefix("bench.") if module.__spec__ else "", module.__doc__)
    names = []
    for name, parameter in inspect.signature(measure, eval_str=True).parameters.items():
        is_required = parameter.default is parameter.empty
        parser.add_argument(
            name.removesuffix("_count"),
            type=parameter.annotation,
            nargs=None if is_required else "?",
            default=None if is_required else parameter.default,
            help=HELP[name] + ("" if is_required else " (%(default)s)"),
        )
        names.append(name.removesuffix("_count"))
    given = vars(parser.parse_args())
    return [given[name] for name in names]


def add_set(parser: argparse.ArgumentParser, *, spans: int, rounds: int | None = None) -> None:
    """Add the arguments of a measurement of one set: the set, how many spans and, if given, how many rounds."""
    parser.add_argument(
        "set", choices=sorted(SETS), nargs="?", default="plain", help="which spans (%(default)s); see bench/varied.py"
    )
    parser.add_argument("spans", type=int, nargs="?", default=spans, help="how many (%(default)s)")
    if rounds is not None:
        parser.add_argument("rounds", type=int, nargs="?", default=rounds, help=HELP["rounds"] + " (%(default)s)")
