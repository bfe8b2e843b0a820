"""``clearspan subscriptions`` and ``clearspan deliver``: their actions and options."""

from __future__ import annotations

from typing import Any, Final

from clearspan.commands.options import add_command, add_group, add_json, add_server, add_table, short_text
from clearspan.commands.targets import (
    add_create,
    add_delete,
    add_list,
    add_named,
    add_selection,
    add_spans_target,
    add_target,
)

DESCRIPTION: Final = """\
Manage subscriptions. A subscription delivers every span that matches to a webhook, a Kafka topic, an OTLP endpoint or
Parquet files, as soon as it is stored: at least once, and in order within a partition. `clearspan deliver` delivers
them; the embedded stack does, too.
"""
EXAMPLES: Final = """\
examples
  clearspan subscriptions create failed --webhook https://hooks.example.org/spans --errors
  clearspan subscriptions create costly --webhook https://hooks.example.org/spans --where cost gt 0.1
  clearspan subscriptions create copy --kafka kafka.example.org:9092 --topic spans-copy --from beginning
  clearspan subscriptions create traces --otlp https://otlp.example.org --header "Authorization: Bearer TOKEN"
  clearspan subscriptions create files --parquet s3://bucket/spans --from beginning
  clearspan subscriptions list
  clearspan subscriptions show failed
  clearspan subscriptions test failed
  clearspan subscriptions edit failed --webhook https://hooks.example.org/other
  clearspan subscriptions pause failed
  clearspan subscriptions resume failed
  clearspan subscriptions replay failed --from 2026-05-01T12:00:00Z
  clearspan subscriptions skip failed
  clearspan subscriptions delete failed
"""
DELIVER_DESCRIPTION: Final = """\
Deliver subscriptions: read the feed of each and send its spans to its target. Any number of these processes share the
subscriptions; the embedded stack (`clearspan up`) needs none. Serves /livez, /readyz and /metrics on
CLEARSPAN_DELIVER_PORT.
"""
_NOUN: Final = "subscription"
_FROM: Final = "now, beginning, a time (ISO 8601, or relative such as -1h), or the position of a subscription"


def add(commands: Any) -> None:
    """Add the commands."""
    summary = "deliver subscriptions to their targets"
    add_command(commands, "deliver", "clearspan.deliver:run", summary, description=DELIVER_DESCRIPTION)
    summary = "deliver spans to other systems as they are stored"
    actions = add_group(commands, "subscriptions", summary, description=DESCRIPTION, epilog=EXAMPLES)
    create = add_create(actions, _NOUN, "create a subscription")
    create.add_argument("--name", metavar="NAME", type=short_text, help="a name for people")
    create.add_argument("--from", dest="begins_at", metavar="WHERE", default="now", help=f"{_FROM} (default: now)")
    add_spans_target(add_target(create))
    add_selection(create)
    listing = add_list(actions, _NOUN)
    show = add_named(actions, _NOUN, "show", "show a subscription with its position, lag and last error")
    edit = add_named(actions, _NOUN, "edit", "change a subscription; its position stays")
    edit.add_argument("--name", metavar="NAME", type=short_text, help="a name for people")
    add_spans_target(add_target(edit))
    add_selection(edit)
    pause = add_named(actions, _NOUN, "pause", "stop delivery and keep the position")
    resume = add_named(actions, _NOUN, "resume", "continue delivery, at once if it waits for its next try")
    replay = add_named(actions, _NOUN, "replay", "deliver again from a time or a position")
    replay.add_argument("--from", dest="begins_at", metavar="WHERE", required=True, help=_FROM)
    skip = add_named(actions, _NOUN, "skip", "pass the batch that cannot be delivered, and record it")
    test = add_named(actions, _NOUN, "test", "send one made-up span to the target; exit code 1 if it does not take it")
    delete = add_delete(actions, _NOUN, "delete a subscription")
    every = (create, listing, show, edit, pause, resume, replay, skip, test, delete)
    add_json(*every)
    add_table(listing)
    add_server(*every)
