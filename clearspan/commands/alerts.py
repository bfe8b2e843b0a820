"""``clearspan alerts``: its actions and options."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from typing import Any, Final

from clearspan.commands.options import CommandParser, add_group, add_json, add_server, add_table, short_text
from clearspan.commands.targets import add_create, add_delete, add_list, add_named, add_selection, add_target

DESCRIPTION: Final = """\
Manage alerts. An alert computes a measure of the spans of the last minutes, again and again, and sends a message to a
webhook or a Kafka topic when the value passes a bound and when it is back: one message each, for each group.
"""
EXAMPLES: Final = """\
examples
  clearspan alerts create failing --ratio errors count --above 0.05 --window 10m --by model \\
    --webhook https://hooks.example.org/alerts
  clearspan alerts create slow --measure duration:p95 --above 5000 --window 15m --where span_type is chat \\
    --webhook https://hooks.example.org/alerts
  clearspan alerts create costly --measure cost:sum --above 20 --window 1h --kafka kafka.example.org:9092 --topic alerts
  clearspan alerts list
  clearspan alerts show failing
  clearspan alerts test failing
  clearspan alerts edit failing --above 0.1
  clearspan alerts pause failing
  clearspan alerts resume failing
  clearspan alerts skip failing
  clearspan alerts delete failing
"""
_NOUN: Final = "alert"
_OF: Final = "count, errors, or a value with a statistic, such as duration:p95 or cost:sum"


def add(commands: Any) -> None:
    """Add the commands."""
    summary = "send a message when a measure of spans passes a bound"
    actions = add_group(commands, "alerts", summary, description=DESCRIPTION, epilog=EXAMPLES)
    create = add_create(actions, _NOUN, "create an alert")
    _add_definition(create)
    listing = add_list(actions, _NOUN)
    listing.add_argument("--breaching", action="store_true", help="only those with a group in breach now")
    show = add_named(actions, _NOUN, "show", "show an alert with its breaches, messages and last error")
    edit = add_named(actions, _NOUN, "edit", "change an alert")
    _add_definition(edit)
    pause = add_named(actions, _NOUN, "pause", "stop evaluating and sending")
    resume = add_named(actions, _NOUN, "resume", "evaluate and send again, at once")
    skip = add_named(actions, _NOUN, "skip", "drop the first message that waits to be delivered")
    test = add_named(actions, _NOUN, "test", "send a test message to the target; exit code 1 if it does not take it")
    delete = add_delete(actions, _NOUN, "delete an alert with its messages")
    every = (create, listing, show, edit, pause, resume, skip, test, delete)
    add_json(*every)
    add_table(listing)
    add_server(*every)


def _add_definition(action: CommandParser) -> None:
    action.add_argument("--name", metavar="NAME", type=short_text, help="a name for people")
    what = action.add_argument_group("measure")
    what.add_argument("--measure", metavar="OF", help=f"what is measured: {_OF}")
    what.add_argument("--ratio", metavar="OF", nargs=2, help="one measure divided by another: errors count")
    what.add_argument("--above", metavar="NUMBER", type=_number, help="a value above it is a breach")
    what.add_argument("--below", metavar="NUMBER", type=_number, help="a value below it is a breach; no data is not")
    what.add_argument("--window", metavar="DURATION", help="spans that started in this time count: 10m, 1h")
    what.add_argument("--every", metavar="DURATION", help="the time between two evaluations (default: 1m)")
    what.add_argument(
        "--by", metavar="FIELD", nargs="+", help="watch each group on its own: fields, or attributes.PATH; at most 3"
    )
    add_target(action)
    add_selection(action)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArgumentTypeError(f"'{text}' is not a number")
    return value
