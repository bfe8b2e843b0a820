"""``clearspan applications``: histories of applications, as people read them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

from rich.text import Text

from clearspan.client.connection import ApiClient, api_command
from clearspan.client.output import TableColumn, console, note, print_objects, print_table, safe
from clearspan.client.requests import pages
from clearspan.client.span_values import local_time
from clearspan.command import Group, Json, Operand, Option
from clearspan.console import NOTHING_FOUND, print_json
from clearspan.options import limit
from common.printable import printable

DESCRIPTION: Final = """\
Read the history of applications: their prompts and configurations, versioned like code. An application is named by its
slug. Each has variants, which are like branches; without --variant it is the first one. Exit code 3 if there is no such
application or version.
"""
EXAMPLES: Final = """\
examples
  clearspan applications list
  clearspan applications log faq-bot
  clearspan applications show faq-bot --version 0
  clearspan applications diff faq-bot 0 1
"""
LIST_EXAMPLES: Final = """\
examples
  clearspan applications list
  clearspan applications list --json
"""
LOG_EXAMPLES: Final = """\
examples
  clearspan applications log faq-bot
  clearspan applications log faq-bot --variant faq-bot.concise --limit 5
"""
SHOW_EXAMPLES: Final = """\
examples
  clearspan applications show faq-bot
  clearspan applications show faq-bot --version 0 --json
"""
DIFF_EXAMPLES: Final = """\
examples
  clearspan applications diff faq-bot             what the last commit changed
  clearspan applications diff faq-bot 0           version 0 and the head
  clearspan applications diff faq-bot 0 1 --json
"""
REVISIONS: Final = "/applications/revisions"
LINES_WITHOUT_PLACES: Final = 10
"""With fewer lines than this, the line numbers of a change are not shown."""

LINES_AROUND: Final = 2
"""Lines that are the same, shown before and after each change of a text."""

_ROOT: Final = "(everything)"

Revision = Mapping[str, Any]

Application: TypeAlias = Annotated[str, Operand("APPLICATION", "the slug of an application")]
Variant: TypeAlias = Annotated[str | None, Option("SLUG", "the slug of a variant (default: the first variant)")]
Lines: TypeAlias = Annotated[int, Option("N", "at most N lines (default: 50)", type=limit)]


@api_command("list the applications, latest first", epilog=LIST_EXAMPLES, is_table=True)
async def list_all(api: ApiClient, *, limit: Lines = 50, as_json: Json = False) -> int:
    """Print the applications of the project."""
    found = [
        application
        async for page in pages(api, "/applications/query", {}, member="applications", limit=limit)
        for application in page
    ]
    if as_json:
        print_objects(found)
    elif not found:
        note("There are no applications.")
    else:
        columns = [TableColumn("slug", is_whole=True), TableColumn("name"), TableColumn("created_at", style="dim")]
        print_table(columns, ([each["slug"], each.get("name"), local_time(each["created_at"])] for each in found))
    return 0


@api_command("list the commits of a variant, latest first", epilog=LOG_EXAMPLES, is_table=True)
async def log(
    api: ApiClient, *, application: Application, variant: Variant = None, limit: Lines = 50, as_json: Json = False
) -> int:
    """Print the commits of a variant, latest first."""
    head = await _retrieve(api, application, variant, None)
    if head is None:
        return NOTHING_FOUND
    revisions = await _log(api, head, depth=limit)
    if as_json:
        print_objects(revisions)
        return 0
    console().print(safe(head.get("application_variant_slug"), "bold"))
    columns = [
        TableColumn("version", "right", is_whole=True),
        TableColumn("date", is_whole=True, style="dim"),
        TableColumn("message"),
        TableColumn("id", is_whole=True, style="cyan"),
    ]
    print_table(
        columns,
        ([each["version"], local_time(each.get("date")), each.get("message"), each["id"]] for each in revisions),
    )
    return 0


@api_command("show what a revision contains", epilog=SHOW_EXAMPLES)
async def show(
    api: ApiClient,
    *,
    application: Application,
    variant: Variant = None,
    version: Annotated[str | None, Option("VERSION", "a version, for example 0 (default: the head)")] = None,
    as_json: Json = False,
) -> int:
    """Print what a revision contains."""
    revision = await _retrieve(api, application, variant, version)
    if revision is None:
        return NOTHING_FOUND
    if as_json:
        print_json(revision)
        return 0
    console().print(
        Text.assemble(safe(revision.get("application_variant_slug"), "bold"), "   ", _title(revision)), soft_wrap=True
    )
    content = json.dumps(revision.get("data", {}), indent=2, ensure_ascii=False)
    console().print(Text(printable(content, keep="\n")), soft_wrap=True)
    return 0


@api_command("show what changed between two revisions of a variant", epilog=DIFF_EXAMPLES)
async def diff(
    api: ApiClient,
    *,
    application: Application,
    variant: Variant = None,
    old: Annotated[str | None, Operand("OLD", "a version (default: the one before NEW)", nargs="?")] = None,
    new: Annotated[str | None, Operand("NEW", "a version (default: the head)", nargs="?")] = None,
    as_json: Json = False,
) -> int:
    """Print what changed between two revisions."""
    after = await _retrieve(api, application, variant, new)
    before = after and await _before(api, application, variant, after, old)
    if after is None or before is None:
        return NOTHING_FOUND
    answer = await api.get(f"{REVISIONS}/diff", **{"from": before["id"], "to": after["id"], "lines": "true"})
    if as_json:
        print_objects(answer["changes"])
        return 0
    out = console()
    out.print(Text.assemble(("- ", "red"), _title(before)), soft_wrap=True)
    out.print(Text.assemble(("+ ", "green"), _title(after)), soft_wrap=True)
    for change in answer["changes"]:
        out.print()
        out.print(safe(change["path"] or _ROOT, "bold"), soft_wrap=True)
        for line in _changed_lines(change):
            out.print(line, soft_wrap=True)
    if not answer["changes"]:
        note("Nothing changed.")
    return 0


applications: Final = Group({"list": list_all, "log": log, "show": show, "diff": diff}, DESCRIPTION, EXAMPLES)


async def _before(
    api: ApiClient, application: str, variant: str | None, after: Revision, old: str | None
) -> Revision | None:
    """Return the revision to compare with: the one that was named, or the one before ``after``."""
    if old is not None:
        return await _retrieve(api, application, variant, old)
    revisions = await _log(api, after, depth=2)
    if len(revisions) < 2:
        note(f"Version {after['version']} is the first one.")
        return None
    return revisions[1]


async def _retrieve(api: ApiClient, application: str, variant: str | None, version: str | None) -> Revision | None:
    """Return the head or one version of a variant; say so if there is none."""
    references: dict[str, Any] = {"application_ref": {"slug": application}}
    if variant is not None:
        references["application_variant_ref"] = {"slug": variant}
    if version is not None:
        references["application_revision_ref"] = {"version": version}
    answer = await api.post(f"{REVISIONS}/retrieve", references)
    revision: Revision | None = answer.get("application_revision")
    if revision is None:
        of_variant = f" of the variant {variant!r}" if variant is not None else ""
        wanted = "revision" if version is None else f"version {version!r}"
        note(f"There is no {wanted}{of_variant} of the application {application!r}.")
    return revision


async def _log(api: ApiClient, revision: Revision, *, depth: int) -> list[Revision]:
    """Return a revision and those before it."""
    start = {"application_variant_id": revision["application_variant_id"], "application_revision_id": revision["id"]}
    answer = await api.post(f"{REVISIONS}/log", {"application_revisions": {**start, "depth": depth}})
    revisions: list[Revision] = answer.get("application_revisions", [])
    return revisions


def _title(revision: Revision) -> Text:
    parts = [
        safe(f"version {revision['version']}", "bold"),
        safe(local_time(revision.get("date")), "dim"),
        safe(revision.get("message")),
    ]
    return Text("   ").join(part for part in parts if part.plain)


def _changed_lines(change: Mapping[str, Any]) -> Iterator[Text]:
    """Yield the lines of a change; texts are compared line by line, with two lines around what differs."""
    if "lines" in change:
        yield from _text_lines(change)
        return
    values = {side: change[side] for side in ("from", "to") if side in change}
    are_texts = all(isinstance(value, str) for value in values.values())
    for side, mark, style in (("from", "-", "red"), ("to", "+", "green")):
        if side in values:
            text = values[side] if are_texts else json.dumps(values[side], indent=2, ensure_ascii=False)
            yield from (_marked(mark, line, style) for line in text.split("\n"))


def _text_lines(change: Mapping[str, Any]) -> Iterator[Text]:
    old = change["from"].split("\n")
    are_numbered = len(old) + len(change["to"].split("\n")) >= LINES_WITHOUT_PLACES
    for place, row in enumerate(change["lines"]):
        if row["op"] == "same":
            is_last = place + 1 == len(change["lines"])
            lines = old[row["from"] - 1 : row["from"] - 1 + row["count"]]
            before = lines[:LINES_AROUND] if place > 0 else []
            after = [] if is_last else lines[max(len(before), len(lines) - LINES_AROUND) :]
            yield from (_marked(" ", line) for line in before)
            if are_numbered and len(before) + len(after) < len(lines) and not is_last:
                yield Text(f"  @@ line {row['to'] + len(lines) - len(after)} @@", "dim")
            yield from (_marked(" ", line) for line in after)
        elif row["op"] == "changed":
            yield _marked("-", row["words"], "red", without="added")
            yield _marked("+", row["words"], "green", without="removed")
        else:
            yield _marked("-", row["text"], "red") if row["op"] == "removed" else _marked("+", row["text"], "green")


def _marked(mark: str, line: str | Sequence[Mapping[str, str]], style: str = "", *, without: str = "") -> Text:
    """Return a line with its mark before it. In a line of parts, those that differ are emphasized."""
    parts = [{"op": "same", "text": line}] if isinstance(line, str) else line
    marked = Text(f"  {mark}", style)
    for part in parts:
        if part["op"] != without:
            marked.append(printable(part["text"]), "" if part["op"] == "same" else "bold underline")
    return marked
