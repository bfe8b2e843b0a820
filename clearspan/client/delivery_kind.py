"""Subscriptions and alerts, which people manage alike: shared options and actions, and how one is printed."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

from rich.text import Text

from clearspan.client.connection import ApiClient, WrongUsage, api_command
from clearspan.client.output import TableColumn, console, note, print_objects, print_table, safe
from clearspan.client.requests import filtering_of
from clearspan.client.span_values import local_time
from clearspan.command import Command, Json, Operand, Option, Titled
from clearspan.console import confirm, fail
from clearspan.options import SpanOptions, short_text
from common.printable import printable

_STYLES: Final = {"active": "green", "retrying": "yellow", "paused": "red"}
_STATES: Final = ("active", "retrying", "paused")
_KINDS: Final = ("webhook", "kafka", "otlp", "parquet", "target")

NewSlug: TypeAlias = Annotated[
    str, Operand("SLUG", "a name in URLs and commands, unique in a project", type=short_text)
]
Name: TypeAlias = Annotated[str | None, Option("NAME", "a name for people", type=short_text)]
Status: TypeAlias = Annotated[str | None, Option(None, "only those in this state", choices=_STATES)]


class TargetOptions(NamedTuple):
    """A target that takes spans and messages."""

    webhook: Annotated[str | None, Option("URL", "POST there, signed as Standard Webhooks")] = None
    secret: Annotated[
        str | None, Option("SECRET", "signs what is sent (whsec_…; default: a new one, which is shown once)")
    ] = None
    kafka: Annotated[str | None, Option("SERVERS", "publish to this cluster: host:port, separated by commas")] = None
    topic: Annotated[str | None, Option("TOPIC", "the topic, with --kafka")] = None
    target: Annotated[str | None, Option("JSON", "any target as JSON, as in the member `target` of a request")] = None

    def request(self, spans: SpansTargetOptions | None = None) -> Mapping[str, Any]:
        """Return the member ``target`` of a request; empty if no option names one. Raises ``WrongUsage``."""
        spans = spans or SpansTargetOptions()
        named = self._asdict() | spans._asdict()
        given = [name for name in _KINDS if named[name] is not None]
        if len(given) > 1:
            raise WrongUsage(f"--{given[0]} and --{given[1]} name two targets; give one.")
        if (self.topic is not None) != (self.kafka is not None):
            raise WrongUsage("--kafka and --topic belong together.")
        if self.secret is not None and self.webhook is None:
            raise WrongUsage("--secret is for --webhook.")
        if (spans.header or spans.ag) and spans.otlp is None:
            raise WrongUsage("--header and --ag are for --otlp.")
        target: Mapping[str, Any]
        match given:
            case []:
                return {}
            case ["webhook"]:
                target = {"kind": "webhook", "url": self.webhook, "secret": self.secret}
            case ["kafka"]:
                target = {"kind": "kafka", "bootstrap": self.kafka, "topic": self.topic}
            case ["otlp"]:
                headers = dict(map(_header, spans.header or ()))
                target = {"kind": "otlp", "endpoint": spans.otlp, "headers": headers or None, "ag": spans.ag or None}
            case ["parquet"]:
                target = {"kind": "parquet", "url": spans.parquet}
            case _:
                target = _json_object(str(self.target))
                return {"target": target}
        return {"target": {name: value for name, value in target.items() if value is not None}}


class SpansTargetOptions(NamedTuple):
    """A target that takes only spans."""

    otlp: Annotated[str | None, Option("URL", "send to this OTLP/HTTP endpoint; /v1/traces for a host alone")] = None
    header: Annotated[
        Sequence[str] | None, Option("HEADER", "a header `Name: value`, with --otlp; repeatable", action="append")
    ] = None
    ag: Annotated[bool, Option(None, "also send the attributes below `ag`, with --otlp")] = False
    parquet: Annotated[
        str | None,
        Option("URL", "write files there, below the folder of the project: file:///folder or s3://bucket/prefix"),
    ] = None


class SelectionOptions(NamedTuple):
    """Which spans are delivered or measured; they must fulfil all of it."""

    where: Annotated[
        Sequence[str],
        Option("WORD", "field operator value, further ones after the word `and`", nargs="+"),
    ] = ()
    filter: Annotated[str | None, Option("JSON", "a filter as JSON")] = None
    query: Annotated[str | None, Option("SLUG", "the slug of a saved query; its newest revision counts")] = None
    errors: Annotated[bool, Option(None, "only spans with the status STATUS_CODE_ERROR")] = False

    async def request(self, api: ApiClient) -> dict[str, Any]:
        """Return the members of a request that choose spans. Raises ``WrongUsage``."""
        return await filtering_of(api, SpanOptions(self.where, self.filter, self.query, errors=self.errors))


Target: TypeAlias = Annotated[TargetOptions, Titled("target")]
SpansTarget: TypeAlias = Annotated[SpansTargetOptions, Titled("target")]
Selection: TypeAlias = Annotated[SelectionOptions, Titled("spans (all by default)")]


class DeliveryKind(NamedTuple):
    """Subscriptions or alerts. ``noun`` is the member of requests and responses, such as ``alert``."""

    noun: str
    sends: str
    """What a target receives: a span or a message."""
    columns: Sequence[TableColumn]
    row: Callable[[Mapping[str, Any]], Sequence[object]]
    """The values of the columns."""
    details: Callable[[Mapping[str, Any]], Sequence[tuple[str, object]]]
    """The names and values that are printed of one; ``None`` is left out."""

    def path_of(self, slug: str, action: str = "") -> str:
        """Return the path of one, or of an action on it such as ``/pause``."""
        return f"/{self.noun}s/{quote(slug, safe='')}{action}"

    async def create(self, api: ApiClient, members: Mapping[str, Any], *, as_json: bool) -> int:
        """Create one and print it, with the secret if one was made."""
        given = {name: value for name, value in members.items() if value is not None}
        return self.print_one(await api.post(f"/{self.noun}s/", {self.noun: given}), as_json=as_json)

    async def edit(self, api: ApiClient, slug: str, changes: Mapping[str, Any], *, as_json: bool) -> int:
        """Change what is not ``None``, and print it. Raises ``WrongUsage`` without a change."""
        given = {name: value for name, value in changes.items() if value is not None}
        if not given:
            raise WrongUsage("nothing to change is given.")
        return self.print_one(await api.request("PUT", self.path_of(slug), body={self.noun: given}), as_json=as_json)

    async def list_all(self, api: ApiClient, condition: Mapping[str, Any], *, as_json: bool) -> int:
        """Print those that match; members of the condition that are ``None`` or false do not count."""
        wanted = {name: value for name, value in condition.items() if value}
        listed = (await api.post(f"/{self.noun}s/query", {self.noun: wanted}))[f"{self.noun}s"]
        if as_json:
            print_objects(listed)
        elif listed:
            print_table(self.columns, map(self.row, listed))
        else:
            note(f"There is no {self.noun}.")
        return 0

    def actions(self, summaries: Mapping[str, str]) -> dict[str, Command]:
        """Return these actions on one that a slug names: show, test, delete, or one that the API has."""
        functions = {"show": self._show, "test": self._test, "delete": self._delete}
        return {
            name: self.action(summary)(functions.get(name) or self._control(name))
            for name, summary in summaries.items()
        }

    def action(self, summary: str) -> Callable[[Callable[..., Awaitable[int]]], Command]:
        """Make a command of a function that takes ``slug``, which names one."""
        slug = Annotated[str, Operand("SLUG", f"slug or id of the {self.noun}")]
        return api_command(summary, more={"slug": slug})

    async def _show(self, api: ApiClient, *, slug: str, as_json: Json = False) -> int:
        return self.print_one(await api.get(self.path_of(slug)), as_json=as_json)

    def _control(self, name: str) -> Callable[..., Awaitable[int]]:
        async def control(api: ApiClient, *, slug: str, as_json: Json = False) -> int:
            return self.print_one(await api.post(self.path_of(slug, f"/{name}"), {}), as_json=as_json)

        return control

    async def _test(self, api: ApiClient, *, slug: str, as_json: Json = False) -> int:
        """Send a test span or message; return 1 if the target does not take it."""
        result = (await api.post(self.path_of(slug, "/test"), {}))["delivery"]
        if as_json:
            print_objects([result])
            return 0 if result["delivered"] else 1
        if not result["delivered"]:
            return fail(f"the target did not take the test {self.sends}: {result['reason']}")
        console().print(safe(f"The target took the test {self.sends} in {result['duration_ms']:.0f} ms."))
        return 0

    async def _delete(
        self,
        api: ApiClient,
        *,
        slug: str,
        yes: Annotated[bool, Option(None, "delete without asking")] = False,
        as_json: Json = False,
    ) -> int:
        """Delete one, after asking."""
        if not yes and not confirm(f"Delete the {self.noun} {slug}? [y/N] "):
            return fail("nothing was deleted.")
        answer = await api.request("DELETE", self.path_of(slug))
        if as_json:
            print_objects([answer[self.noun]])
        return 0

    def print_one(self, answer: Mapping[str, Any], *, as_json: bool) -> int:
        """Print the one of a response, with the warning and the secret if there are any; return the exit code."""
        one = answer[self.noun]
        if warning := answer.get("warning"):
            note(warning)
        if as_json:
            print_objects([one])
            return 0
        out = console()
        for name, value in self.details(one):
            if value is not None:
                line = safe(f"{name:<11}", "dim")
                out.print(line.append_text(value if isinstance(value, Text) else safe(value)), soft_wrap=True)
        if "secret" in one["target"]:
            note("The secret signs what is sent. It is not shown again.")
        return 0


def status_text(one: Mapping[str, Any]) -> Text:
    """Return the status in its color."""
    return safe(one["status"], _STYLES.get(one["status"], ""))


def failure_text(one: Mapping[str, Any]) -> str | None:
    """Return the reason of the last error, unless all is well."""
    return (one.get("last_error") or {}).get("reason") if one["status"] != "active" else None


def target_text(target: Mapping[str, Any]) -> str:
    """Return a target in one line."""
    rest = " ".join(str(value) for name, value in target.items() if name not in ("kind", "secret", "ag", "ca"))
    return f"{target['kind']} {rest}"


def selection_text(one: Mapping[str, Any]) -> str:
    """Return in one line which spans a subscription or an alert is about."""
    for name in ("query_ref", "query_revision_ref", "filtering"):
        if name in one:
            return f"{name} {json.dumps(one[name], ensure_ascii=False)}"
    return "all"


def error_text(error: Mapping[str, Any] | None) -> str | None:
    """Return the last error with its time."""
    return None if error is None else f"{local_time(error['at'])} {error['reason']}"


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise WrongUsage(f"--header '{printable(text)}' is not of the form 'Name: value'.")
    return name.strip(), value.strip()


def _json_object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise WrongUsage("--target is not a JSON object.")
    return value
