"""The table of the reference, row by row: every route of saved queries with the bodies that it accepts, and each status
(contract §3.4, §5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from common.postgres.pool import Database, open_database
from common.settings import ClickHouseSettings, PostgresSettings
from query_api.queries.saved import QUERY_ROUTES
from tests.support.cases import case
from tests.support.history import HistoryClient, clients_of
from tests.support.route_table import NO_ID, Row, check, post, untested
from tests.support.stores import opened_store

FORKS = "/queries/variants/fork"
COMMITS = "/queries/revisions/commit"
LOGS = "/queries/revisions/log"
RETRIEVALS = "/queries/revisions/retrieve"


def query(**members: Any) -> Any:
    return {"query": members}


def variant(**members: Any) -> Any:
    return {"query_variant": members}


def revision(**members: Any) -> Any:
    return {"query_revision": members}


def logged(**members: Any) -> Any:
    return {"query_revisions": members}


def fork(slug: str | None = "new", /, **members: Any) -> Any:
    return {"query_variant": {"slug": slug} if slug is not None else {}, **members}


def where(field: str, value: Any = None, operator: str = "is", **more: Any) -> Any:
    """A filter of one condition."""
    return {"conditions": [{"field": field, "operator": operator, "value": value, **more}]}


def nested(depth: int) -> Any:
    """Return a filter of ``depth`` nested groups."""
    return {"conditions": [nested(depth - 1)] if depth > 1 else []}


SLOW = where("span_name", "slow", "contains")
ON_MAIN = {"query_variant_id": "$main"}
OF_MAIN = {"query_variant_ref": {"slug": "bot.main"}}
TAKEN = '"conflict":{"slug":'
NONE = '{"count":0}'

ARTIFACTS = {
    "create": post("/queries/", query(slug="new", name="New"), 200, '"name":"New"'),
    "create without slash": post("/queries", query(slug="new"), 200),
    "create below /api": post("/api/queries/", query(slug="new"), 200),
    "create below /preview": post("/preview/queries/", query(slug="new"), 200),
    "create with flags": post("/queries/", query(slug="new", flags={"is_x": True}), 200),
    "create with unknown members": post("/queries/", {**query(slug="new", version=1), "more": 1}, 200),
    "create, slug missing": post("/queries/", query(name="x"), 422, "slug"),
    "create, slug malformed": post("/queries/", query(slug="bad slug"), 422, "URL-safe"),
    "create, slug with a line": post("/queries/", query(slug="new\n"), 422, "URL-safe"),
    "create, no wrapper": post("/queries/", {}, 422, '"query"'),
    "create, no body": post("/queries/", None, 422, '["body"]'),
    "create, taken": post("/queries/", query(slug="bot"), 409, TAKEN + '"bot"'),
    "create, taken by an archived one": post("/queries/", query(slug="gone"), 409, TAKEN + '"gone"'),
    "create, taken by a stranger": post("/queries/", query(slug="foreign"), 200),
    "create, taken by an application": post("/queries/", query(slug="app"), 200),
    "create, reserved": post("/queries/", query(slug="__ag__x"), 400, "__ag__"),
    "create, id chosen": post(f"/queries/?query_id={NO_ID}", query(slug="new"), 200, NO_ID),
    "create, id taken": post("/queries/?query_id=$bot", query(slug="new"), 409, '"conflict":{"id":"$bot"}'),
    "create, id unreadable": post("/queries/?query_id=x", query(slug="new"), 422, '"query"'),
    "create, NUL in the name": post("/queries/", query(slug="new", name="a\0b"), 422, "U+0000"),
    "get": Row("GET", "/queries/$bot", None, 200, '"slug":"bot"'),
    "get with slash": Row("GET", "/queries/$bot/", None, 200, '"count":1'),
    "get in capitals": Row("GET", "/queries/$CAPITALS", None, 200, '"count":1'),
    "get archived": Row("GET", "/queries/$gone", None, 200, '"deleted_at"'),
    "get unknown": Row("GET", f"/queries/{NO_ID}", None, 200, NONE),
    "get a stranger's": Row("GET", "/queries/$foreign", None, 200, NONE),
    "get an application": Row("GET", "/queries/$app", None, 200, NONE),
    "get, no id": Row("GET", "/queries/nope", None, 422, '["path","query_id"]'),
    "edit": Row("PUT", "/queries/$bot", query(id="$bot", name="New"), 200, '"name":"New"'),
    "edit, another id": Row("PUT", "/queries/$bot", query(id="$other", name="x"), 400, "do not match"),
    "edit, without id": Row("PUT", "/queries/$bot", query(name="x"), 400, "has no id"),
    "edit archived": Row("PUT", "/queries/$gone", query(id="$gone", name="x"), 200, NONE),
    "edit a stranger's": Row("PUT", "/queries/$foreign", query(id="$foreign", name="x"), 200, NONE),
    "archive": post("/queries/$bot/archive", None, 200, '"deleted_at"'),
    "archive unknown": post(f"/queries/{NO_ID}/archive", None, 200, NONE),
    "archive a stranger's": post("/queries/$foreign/archive", None, 200, NONE),
    "unarchive": post("/queries/$gone/unarchive", None, 200, '"count":1'),
    "unarchive unknown": post(f"/queries/{NO_ID}/unarchive", None, 200, NONE),
    "query": post("/queries/query", {}, 200, '"count":3'),
    "query without a body": post("/queries/query", None, 200, '"count":3'),
    "query with archived": post("/queries/query", {"include_archived": True}, 200, '"count":4'),
    "query honours its body": post("/queries/query", query(slugs=["bot", "bare"]), 200, '"count":2'),
    "query by references": post("/queries/query", {"query_refs": [{"id": "$bot"}, {"slug": "bare"}]}, 200, '"count":2'),
    "query by name": post("/queries/query", query(name="THE BOT"), 200, '"count":1,"queries":[{"id":"$bot"'),
    "query by tags": post("/queries/query", query(tags={"team": "cx"}), 200, '"count":1'),
    "query by meta": post("/queries/query", query(meta={"team": "cx"}), 200, '"count":0'),
    "query, the newest": post("/queries/query", {"windowing": {"limit": 1}}, 200, '"count":1,"queries":[{"id":"$bare"'),
    "query by parameter": post("/queries/query?query_slug=bot", None, 200, '"count":1,"queries":[{"id":"$bot"'),
    "query by several": post("/queries/query?query_ids=$bot&query_slugs=other&query_id=$bare", None, 200, '"count":3'),
    "query by tags in the string": post('/queries/query?tags={"team":"cx"}', None, 200, '"count":1'),
    "query by name in the string": post("/queries/query?name=bot", None, 200, '"count":1'),
    "query archived by parameter": post("/queries/query?include_archived=true", None, 200, '"count":4'),
    "query a page by parameters": post(
        "/queries/query?limit=1&order=ascending&next=$bot", None, 200, '[{"id":"$other"'
    ),
    "query, the body wins": post(
        "/queries/query?query_slug=bot", {"query_refs": [{"slug": "bare"}]}, 200, '{"id":"$bare"'
    ),
    "query, tags that are no JSON": post("/queries/query?tags={", None, 422, "tags"),
    "query, an id unreadable": post("/queries/query?query_id=x", None, 422, "query_id"),
    "query, a list": post("/queries/query", [], 422),
    "query by GET": Row("GET", "/queries/query", None, 405),
    "delete": Row("DELETE", "/queries/$bot", None, 405),
}

VARIANTS = {
    "create": post(
        "/queries/variants/",
        variant(query_id="$bot", slug="new"),
        200,
        '"name":"new","query_id":"$bot","artifact_id":"$bot"',
    ),
    "create without slash": post("/queries/variants", variant(artifact_id="$bot", slug="new"), 200),
    "create, parent archived": post("/queries/variants/", variant(query_id="$gone", slug="new"), 200),
    "create, taken": post("/queries/variants/", variant(query_id="$bot", slug="bot.main"), 409, TAKEN),
    "create, slug missing": post("/queries/variants/", variant(query_id="$bot"), 422, "slug"),
    "create, parent missing": post("/queries/variants/", variant(slug="new"), 422, '"query_id"'),
    "create, parent unknown": post("/queries/variants/", variant(query_id=NO_ID, slug="new"), 404, NO_ID),
    "create, parent of a stranger": post("/queries/variants/", variant(query_id="$foreign", slug="new"), 404),
    "create, parent an application": post("/queries/variants/", variant(query_id="$app", slug="new"), 404),
    "get": Row("GET", "/queries/variants/$main", None, 200, '"query_slug":"bot","artifact_slug":"bot"'),
    "get unknown": Row("GET", f"/queries/variants/{NO_ID}", None, 200, NONE),
    "get, no id": Row("GET", "/queries/variants/x", None, 422, '["path","query_variant_id"]'),
    "edit": Row("PUT", "/queries/variants/$main", variant(id="$main", description="d"), 200, '"description":"d"'),
    "edit, another id": Row("PUT", "/queries/variants/$main", variant(id="$empty"), 400, "do not match"),
    "archive": post("/queries/variants/$main/archive", None, 200, '"deleted_at"'),
    "archive a stranger's": post("/queries/variants/$foreign_main/archive", None, 200, NONE),
    "unarchive": post("/queries/variants/$main/unarchive", None, 200, '"count":1'),
    "query": post("/queries/variants/query", {}, 200, '"count":4'),
    "query of one": post("/queries/variants/query", {"query_refs": [{"slug": "bot"}]}, 200, '"count":2'),
    "query by slug": post("/queries/variants/query", variant(slug="bot.main"), 200, '"query_variants":[{"id":"$main"'),
    "fork": post(FORKS, fork(**OF_MAIN), 200, '"forked_from":{"variant_id":"$main","revision_id":"$r2"}'),
    "fork up to a version": post(
        FORKS, fork(**OF_MAIN, query_revision_ref={"version": "1"}), 200, '"revision_id":"$r1"'
    ),
    "fork, source unknown": post(
        FORKS, fork(query_variant_ref={"id": NO_ID}), 400, "Fork source variant could not be resolved"
    ),
    "fork, revision unknown": post(
        FORKS, fork(**OF_MAIN, query_revision_ref={"id": NO_ID}), 400, "Fork source revision could not be resolved"
    ),
    "fork, no source": post(FORKS, fork(), 422, "query_variant_ref"),
    "fork, slug missing": post(FORKS, fork(None, **OF_MAIN), 422, "slug"),
    "fork, slug taken": post(FORKS, fork("other.main", **OF_MAIN), 409, TAKEN),
}


def commit(data: Any) -> Any:
    return revision(**ON_MAIN, data=data)


REVISIONS = {
    "commit": post(COMMITS, commit({"filtering": SLOW}), 200, '"version":"3"'),
    "commit shows every spelling": post(
        COMMITS,
        commit({}),
        200,
        '"query_id":"$bot","artifact_id":"$bot","query_variant_id":"$main","variant_id":"$main","query_slug":"bot"',
    ),
    "commit materialises what is meant": post(
        COMMITS,
        commit(
            {
                "filtering": {
                    "operator": "and",
                    "conditions": [{"field": "span_name", "value": "a", "key": None, "options": None}],
                }
            }
        ),
        200,
        '"data":{"filtering":{"operator":"and","conditions":[{"field":"span_name","value":"a","operator":"is"}]}}',
    ),
    "commit keeps times in UTC": post(
        COMMITS,
        commit({"windowing": {"newest": "2024-01-01T02:00:00+02:00", "oldest": "2023-01-01T00:00:00", "limit": None}}),
        200,
        '"data":{"windowing":{"newest":"2024-01-01T00:00:00Z","oldest":"2023-01-01T00:00:00Z"}}',
    ),
    "commit keeps values as they are": post(
        COMMITS,
        commit({"filtering": where("attributes", {"b": None, "a": [18446744073709551615, 0.1]}, key="x")}),
        200,
        '"value":{"b":null,"a":[18446744073709551615,0.1]}',
    ),
    "commit ignores what was found": post(
        COMMITS,
        commit({"formatting": {"focus": "span"}, "trace_ids": ["a"], "traces": [{"spans": {}}]}),
        200,
        '"data":{"formatting":{"focus":"span"}},"created_at"',
    ),
    "commit, empty data is none": post(COMMITS, commit({}), 200, '"created_at"'),
    "commit, without data": post(COMMITS, revision(variant_id="$empty", message="m"), 200, '"version":"0"'),
    "commit, unknown member of data": post(
        COMMITS, commit({"filter": SLOW}), 422, '["body","query_revision","data","filter"]'
    ),
    "commit, unknown member of formatting": post(COMMITS, commit({"formatting": {"focal": 1}}), 422, "focal"),
    "commit, unknown member of windowing": post(COMMITS, commit({"windowing": {"limits": 1}}), 422, "limits"),
    "commit, unknown member of filtering": post(COMMITS, commit({"filtering": {"condition": []}}), 422, "condition"),
    "commit, unknown operator": post(
        COMMITS, commit({"filtering": where("span_name", "a", "is like")}), 422, "operator"
    ),
    "commit, unknown focus": post(COMMITS, commit({"formatting": {"focus": "session"}}), 422, "focus"),
    "commit, a limit of 0": post(COMMITS, commit({"windowing": {"limit": 0}}), 422, "limit"),
    "commit, the largest limit": post(COMMITS, commit({"windowing": {"limit": 10_000}}), 200),
    "commit, a limit past it": post(COMMITS, commit({"windowing": {"limit": 10_001}}), 422, "10000"),
    "commit, NUL in a value": post(COMMITS, commit({"filtering": where("span_name", "a\0")}), 422, "U+0000"),
    "commit, NUL in a cursor": post(COMMITS, commit({"windowing": {"next": "\0"}}), 422, "U+0000"),
    "commit, the longest cursor": post(COMMITS, commit({"windowing": {"next": "x" * 131_072}}), 200),
    "commit, a cursor past it": post(COMMITS, commit({"windowing": {"next": "x" * 131_073}}), 422, "131072"),
    "commit, groups as deep as may be": post(COMMITS, commit({"filtering": nested(16)}), 200),
    "commit, groups too deep": post(COMMITS, commit({"filtering": nested(17)}), 400, "data.filtering"),
    "commit, groups far too deep": post(COMMITS, commit({"filtering": nested(200)}), 400, "data.filtering"),
    "commit, a value far too deep": post(
        COMMITS, commit({"filtering": where("attributes", [[[[[[[[1]]]]]]]], key="x")}), 200
    ),
    "commit, an invalid field": post(
        COMMITS, commit({"filtering": where("nothing")}), 400, "data.filtering.conditions[0].field"
    ),
    "commit, an invalid operator": post(
        COMMITS, commit({"filtering": where("trace_id", "ab", "like")}), 400, "data.filtering.conditions[0].operator"
    ),
    "commit, an invalid operand": post(
        COMMITS, commit({"filtering": where("trace_id", "zz")}), 400, "data.filtering.conditions[0].value"
    ),
    "commit, attributes without key": post(COMMITS, commit({"filtering": where("attributes", "x")}), 400, "key"),
    "commit, an invalid pattern": post(COMMITS, commit({"filtering": where("span_name", "(", "matches")}), 400, "RE2"),
    "commit, too many conditions": post(
        COMMITS, commit({"filtering": {"conditions": where("span_name", "a")["conditions"] * 257}}), 400, "256"
    ),
    "commit, a feed": post(COMMITS, commit({"windowing": {"by": "created_at", "wait_s": 1}}), 200),
    "commit, a feed that descends": post(
        COMMITS, commit({"windowing": {"by": "created_at", "order": "descending"}}), 400, "data.windowing.order"
    ),
    "commit, a feed of traces": post(
        COMMITS, commit({"formatting": {"focus": "trace"}, "windowing": {"by": "created_at"}}), 400, "data.windowing.by"
    ),
    "commit, waiting without a feed": post(COMMITS, commit({"windowing": {"wait_s": 1}}), 400, "data.windowing.wait_s"),
    "commit, variant missing": post(COMMITS, revision(query_id="$bot"), 422, "query_variant_id"),
    "commit, variant unknown": post(COMMITS, revision(query_variant_id=NO_ID), 404, NO_ID),
    "commit, variant of a stranger": post(COMMITS, revision(query_variant_id="$foreign_main"), 404),
    "commit, another query": post(
        COMMITS, revision(**ON_MAIN, query_id="$other"), 409, '"conflict":{"query_id":"$other"}'
    ),
    "commit, slug taken": post(COMMITS, revision(**ON_MAIN, slug="w0"), 409, TAKEN + '"w0"'),
    "commit, slug reserved": post(COMMITS, revision(**ON_MAIN, slug="__ag__x"), 400),
    "commit on an old base": post(
        COMMITS, revision(**ON_MAIN, base_revision_id="$r1"), 409, '"current_revision_id":"$r2"'
    ),
    "commit, no wrapper": post(COMMITS, {}, 422, '"query_revision"'),
    "delta": post(
        COMMITS,
        revision(**ON_MAIN, delta={"set": {"windowing": {"limit": 7}}, "remove": ["filtering", "formatting"]}),
        200,
        '"data":{"windowing":{"limit":7}}',
    ),
    "delta to nothing": post(
        COMMITS, revision(**ON_MAIN, delta={"remove": ["filtering", "formatting"]}), 200, '"created_at"'
    ),
    "delta, unknown member": post(COMMITS, revision(**ON_MAIN, delta={"set": {"foo": 1}}), 422, '"delta","set","foo"'),
    "delta, an invalid condition": post(
        COMMITS,
        revision(**ON_MAIN, delta={"set": {"filtering": where("nothing")}}),
        400,
        "data.filtering.conditions[0].field",
    ),
    "first": post("/queries/revisions/", revision(variant_id="$empty"), 200, '"version":"0"'),
    "first without slash": post(
        "/queries/revisions", revision(query_variant_id="$empty", query_id="$bot"), 200, '"message":"Initial revision"'
    ),
    "first, there is one": post(
        "/queries/revisions/", revision(**ON_MAIN), 409, "An initial revision already exists for this variant."
    ),
    "first, variant unknown": post("/queries/revisions/", revision(variant_id=NO_ID), 404),
    "first, nothing": post("/queries/revisions/", revision(), 422, "query_variant_id"),
    "get": Row("GET", "/queries/revisions/$r1", None, 200, '"query_variant_slug":"bot.main","variant_slug":"bot.main"'),
    "get unknown": Row("GET", f"/queries/revisions/{NO_ID}", None, 200, NONE),
    "get a stranger's": Row("GET", "/queries/revisions/$foreign_r0", None, 200, NONE),
    "edit": Row(
        "PUT", "/queries/revisions/$r1", revision(id="$r1", name="n", data={"filtering": {}}), 200, '"name":"n"'
    ),
    "edit, another id": Row("PUT", "/queries/revisions/$r1", revision(id="$r2"), 400, "do not match"),
    "archive": post("/queries/revisions/$r1/archive", None, 200, '"deleted_at"'),
    "unarchive": post("/queries/revisions/$r1/unarchive", None, 200, '"count":1'),
    "query": post("/queries/revisions/query", {}, 200, '"count":6'),
    "query of a variant": post("/queries/revisions/query", {"query_variant_refs": [{"id": "$main"}]}, 200, '"count":3'),
    "query by message": post("/queries/revisions/query", revision(message="M1"), 200, '"query_revisions":[{"id":"$r1"'),
    "query, an author unreadable": post("/queries/revisions/query", revision(author="x"), 422, "author"),
    "log": post(LOGS, logged(**ON_MAIN), 200, '"count":3,"query_revisions":[{"id":"$r2"'),
    "log, depth": post(LOGS, logged(query_id="$bot", depth=2), 200, '"count":2'),
    "log of a revision": post(LOGS, logged(query_revision_id="$r1"), 200, '"count":2'),
    "log of nothing": post(LOGS, logged(), 200, '{"count":0,"query_revisions":[]}'),
    "log of a stranger": post(LOGS, logged(query_variant_id="$foreign_main"), 200, '"count":0'),
    "log, no wrapper": post(LOGS, {}, 422, '"query_revisions"'),
    "retrieve": post(RETRIEVALS, {"query_ref": {"slug": "bot"}}, 200, '"query_revision":{"id":"$r2"'),
    "retrieve says how": post(
        RETRIEVALS,
        {"query_revision_ref": {"id": "$r1"}},
        200,
        '"retrieval_info":{"references":{"query":{"id":"$bot","slug":"bot"},"query_variant":{"id":"$main","slug":"bot.main"},"query_revision":{"id":"$r1"',
    ),
    "retrieve a version": post(RETRIEVALS, {**OF_MAIN, "query_revision_ref": {"version": "1"}}, 200, '{"id":"$r1"'),
    "retrieve, nothing": post(RETRIEVALS, {}, 200, NONE),
    "retrieve, no body": post(RETRIEVALS, None, 200, NONE),
    "retrieve, an empty reference": post(RETRIEVALS, {"query_ref": {}}, 200, NONE),
    "retrieve, unknown": post(RETRIEVALS, {"query_ref": {"slug": "none"}}, 200, NONE),
    "retrieve a stranger's": post(RETRIEVALS, {"query_revision_ref": {"id": "$foreign_r0"}}, 200, NONE),
    "retrieve, a version alone": post(RETRIEVALS, {"query_revision_ref": {"version": "1"}}, 400, "query_variant_ref"),
    "retrieve, a variant by version": post(
        RETRIEVALS, {"query_variant_ref": {"version": "1"}}, 400, "query_variant_ref"
    ),
    "retrieve, contradiction": post(RETRIEVALS, {"query_ref": {"slug": "other"}, **OF_MAIN}, 400, "does not match"),
    "retrieve, a slug malformed": post(
        RETRIEVALS, {"query_ref": {"slug": "a b"}}, 422, "Value error, 'slug' must be URL-safe."
    ),
    "retrieve, a number as version": post(RETRIEVALS, {"query_revision_ref": {"version": 1}}, 422, "string_type"),
    "retrieve with trace ids": post(RETRIEVALS, {**OF_MAIN, "include_trace_ids": True}, 200, '"trace_ids":[]}'),
    "retrieve with traces": post(RETRIEVALS, {**OF_MAIN, "include_traces": True}, 200, '"trace_ids":[],"traces":[]}'),
    "retrieve with neither": post(
        RETRIEVALS, {"query_ref": {"slug": "bare"}, "include_traces": False}, 200, '"version":"1"'
    ),
    "retrieve, nothing to run": post(
        RETRIEVALS, {"query_ref": {"slug": "bare"}, "include_traces": True}, 400, "stores no data"
    ),
    "retrieve, unknown with traces": post(
        RETRIEVALS, {"query_ref": {"slug": "none"}, "include_traces": True}, 200, NONE
    ),
    "retrieve, a feed": post(
        RETRIEVALS, {**OF_MAIN, "include_traces": True, "windowing": {"by": "created_at"}}, 400, "windowing.by"
    ),
    "retrieve, a cursor of nobody's": post(
        RETRIEVALS, {**OF_MAIN, "include_traces": True, "windowing": {"next": "x"}}, 400, "cursor in `next`"
    ),
    "retrieve, unknown member of windowing": post(RETRIEVALS, {**OF_MAIN, "windowing": {"limits": 1}}, 422, "limits"),
    "diff": Row(
        "GET",
        "/queries/revisions/diff?from=$r0&to=$r1",
        None,
        200,
        '{"op":"added","path":"/windowing","to":{"limit":2}}',
    ),
    "diff, unknown": Row("GET", f"/queries/revisions/diff?from=$r0&to={NO_ID}", None, 404, NO_ID),
    "revert": post("/queries/revisions/$r0/revert", None, 200, '"message":"Revert to version 0"'),
    "revert a stranger's": post("/queries/revisions/$foreign_r0/revert", {}, 404),
}

SIMPLE = {
    "create": post("/simple/queries/", query(slug="new", data={"filtering": SLOW}), 200, '"value":"slow"'),
    "create with flags": post("/simple/queries/", query(slug="new", flags={"is_x": True}), 200, '"data":{}'),
    "create without slash": post("/simple/queries", query(slug="new"), 200, '"variant_id"'),
    "create, taken": post("/simple/queries/", query(slug="bot"), 409, TAKEN + '"bot"'),
    "create, reserved": post("/simple/queries/", query(slug="__ag__"), 400),
    "create, slug missing": post("/simple/queries/", query(), 422, "slug"),
    "create, unknown member of data": post("/simple/queries/", query(slug="new", data={"filter": {}}), 422, "filter"),
    "create, an invalid condition": post(
        "/simple/queries/",
        query(slug="new", data={"filtering": where("nothing")}),
        400,
        "data.filtering.conditions[0].field",
    ),
    "get": Row("GET", "/simple/queries/$bot", None, 200, '"revision_id":"$r2"'),
    "get unknown": Row("GET", f"/simple/queries/{NO_ID}", None, 200, NONE),
    "get a stranger's": Row("GET", "/simple/queries/$foreign", None, 200, NONE),
    "edit": Row("PUT", "/simple/queries/$bot", query(id="$bot", data={"filtering": SLOW}), 200, '"value":"slow"'),
    "edit, another id": Row("PUT", "/simple/queries/$bot", query(id="$other"), 400),
    "edit, an invalid condition": Row(
        "PUT",
        "/simple/queries/$bot",
        query(id="$bot", name="x", data={"filtering": where("nothing")}),
        400,
        "data.filtering",
    ),
    "archive": post("/simple/queries/$bot/archive", None, 200, '"deleted_at"'),
    "archive unknown": post(f"/simple/queries/{NO_ID}/archive", None, 200, NONE),
    "unarchive": post("/simple/queries/$bot/unarchive", None, 200, '"count":1'),
    "unarchive unknown": post(f"/simple/queries/{NO_ID}/unarchive", None, 200, NONE),
    "query": post("/simple/queries/query", {}, 200, '"count":3'),
    "query of one": post("/preview/simple/queries/query", query(slug="bot"), 200, '"count":1'),
    "query by references": post("/simple/queries/query", {"query_refs": [{"slug": "bot"}]}, 200, '"revision_id":"$r2"'),
}

ROWS = {
    f"{table}: {name}": row
    for table, rows in (("queries", ARTIFACTS), ("variants", VARIANTS), ("revisions", REVISIONS), ("simple", SIMPLE))
    for name, row in rows.items()
}
WRITTEN = {name: row for name, row in ROWS.items() if not row.leaves_no_trace}
READ = {name: row for name, row in ROWS.items() if row.leaves_no_trace}


@dataclass(frozen=True)
class World:
    """What exists in every row, by short names: saved queries, one archived, one of another project, and an
    application.
    """

    mine: HistoryClient
    names: dict[str, str]

    async def counts(self) -> list[int]:
        paths = [f"/{path}/query" for path in ("queries", "queries/variants", "queries/revisions")]
        return [(await self.mine.post(path, {"include_archived": True}))["count"] for path in paths]


async def made_in(mine: HistoryClient, stranger: HistoryClient) -> World:
    names: dict[str, str] = {}

    async def make(known: str, /, client: HistoryClient, path: str, word: str, **members: Any) -> str:
        names[known] = (await client.post(path, {word: members}))[word]["id"]
        return names[known]

    async def committed(known: str, client: HistoryClient, main: str, **members: Any) -> str:
        return await make(known, client, COMMITS, "query_revision", query_variant_id=main, **members)

    bot = await make("bot", mine, "/queries/", "query", slug="bot", name="Of the bot", tags={"team": "cx"})
    main = await make("main", mine, "/queries/variants/", "query_variant", query_id=bot, slug="bot.main")
    await make("empty", mine, "/queries/variants/", "query_variant", query_id=bot, slug="bot.empty")
    await committed("r0", mine, main, data={"filtering": SLOW}, message="m0")
    await committed("r1", mine, main, data={"filtering": SLOW, "windowing": {"limit": 2}}, message="m1")
    await committed("r2", mine, main, data={"filtering": SLOW, "formatting": {"focus": "span"}})
    other = await make("other", mine, "/queries/", "query", slug="other")
    other_main = await make("om", mine, "/queries/variants/", "query_variant", query_id=other, slug="other.main")
    await committed("w0", mine, other_main, slug="w0")
    await make("bare", mine, "/simple/queries/", "query", slug="bare")
    gone = await make("gone", mine, "/queries/", "query", slug="gone")
    await mine.post(f"/queries/{gone}/archive")
    await make("app", mine, "/applications/", "application", slug="app")
    foreign = await make("foreign", stranger, "/queries/", "query", slug="foreign")
    foreign_main = await make(
        "foreign_main", stranger, "/queries/variants/", "query_variant", query_id=foreign, slug="f.main"
    )
    await committed("foreign_r0", stranger, foreign_main, data={"filtering": SLOW})
    return World(mine, names | {"CAPITALS": UUID(bot).hex.upper()})


@asynccontextmanager
async def world_over(database: Database, engine: ClickHouseSettings, directory: Path) -> AsyncIterator[World]:
    async with (
        opened_store(engine, data_dir=directory) as store,
        clients_of(database, count=2, store=store) as [mine, stranger],
    ):
        yield await made_in(mine, stranger)


@pytest.fixture
async def world(shared_database: Database, engine: ClickHouseSettings, chdb_dir: Path) -> AsyncIterator[World]:
    async with world_over(shared_database, engine, chdb_dir) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lasting_world(
    shared_postgres: PostgresSettings, engine: ClickHouseSettings, chdb_dir: Path
) -> AsyncIterator[World]:
    async with open_database(shared_postgres) as database, world_over(database, engine, chdb_dir) as made:
        yield made


@pytest.mark.parametrize("row", WRITTEN.values(), ids=WRITTEN.keys())
async def test_route_that_writes(world: World, row: Row):
    await check(world.mine, row, world.names)


@pytest.mark.asyncio(loop_scope="module")
async def test_routes_that_read_or_fail_change_nothing(lasting_world: World):
    before = await lasting_world.counts()

    for name, row in READ.items():
        with case(name):
            await check(lasting_world.mine, row, lasting_world.names)

    assert await lasting_world.counts() == before


def test_the_table_has_every_route():
    assert untested(QUERY_ROUTES, ROWS.values()) == []


async def test_empty_data_stores_none(world: World):
    on_main = {"query_variant_id": world.names["main"]}

    made = await world.mine.post(COMMITS, revision(**on_main, data={"trace_ids": ["a"], "filtering": None}))

    assert "data" not in made["query_revision"]


async def test_edited_revision_keeps_its_data(world: World):
    r1 = world.names["r1"]
    before = await world.mine.call("GET", f"/queries/revisions/{r1}")

    await world.mine.call("PUT", f"/queries/revisions/{r1}", json=revision(id=r1, data={"filtering": {}}))

    after = await world.mine.call("GET", f"/queries/revisions/{r1}")
    assert after["query_revision"]["data"] == before["query_revision"]["data"]


async def test_simple_archive_and_unarchive_include_the_variant(world: World):
    bare = f"/simple/queries/{world.names['bare']}"
    listed = {"query_refs": [{"slug": "bare"}]}

    await world.mine.post(f"{bare}/archive")
    archived = [
        (await world.mine.post(f"/queries{layer}/query", listed))["count"] for layer in ("", "/variants", "/revisions")
    ]
    await world.mine.post(f"{bare}/unarchive")
    back = [
        (await world.mine.post(f"/queries{layer}/query", listed))["count"] for layer in ("", "/variants", "/revisions")
    ]

    assert (archived, back) == ([0, 0, 0], [1, 1, 2])


async def test_a_simple_query_has_an_empty_version_and_one_with_its_data(world: World):
    made = (await world.mine.post("/simple/queries/", query(slug="new", data={"filtering": SLOW})))["query"]

    log = (await world.mine.post(LOGS, logged(query_id=made["id"])))["query_revisions"]
    assert [(revision["version"], "data" in revision) for revision in log] == [("1", True), ("0", False)]
    assert (log[0]["id"], log[0]["query_variant_id"]) == (made["revision_id"], made["variant_id"])
