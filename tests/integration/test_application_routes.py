"""The table of the reference, row by row: every application route with the bodies that it accepts, and each status
(contract §5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from common.postgres.pool import Database, open_database
from common.settings import PostgresSettings
from query_api.queries.revisions import APPLICATION_ROUTES
from tests.support.cases import case
from tests.support.history import EvaluatorClient, HistoryClient, clients_of
from tests.support.route_table import NO_ID, Row, check, post, untested

FORKS = "/applications/variants/fork"
COMMITS = "/applications/revisions/commit"
LOGS = "/applications/revisions/log"
RETRIEVALS = "/applications/revisions/retrieve"


def application(**members: Any) -> Any:
    return {"application": members}


def variant(**members: Any) -> Any:
    return {"application_variant": members}


def revision(**members: Any) -> Any:
    return {"application_revision": members}


def fork(slug: str | None = "new", /, **members: Any) -> Any:
    return {"application_variant": {"slug": slug} if slug is not None else {}, **members}


def logged(**members: Any) -> Any:
    return {"application_revisions": members}


ON_MAIN = {"application_variant_id": "$main"}
OF_MAIN = {"application_variant_ref": {"slug": "app.main"}}
TAKEN = '"conflict":{"slug":'
NONE = '{"count":0}'
BAD_SLUGS = ("", ".hidden", "bad slug", "naïve", "line\n", "null\0")

ARTIFACTS = {
    "create": post("/applications/", application(slug="new"), 200, '"is_application":true'),
    "create without slash": post("/applications", application(slug="new"), 200),
    "create below /api": post("/api/applications/", application(slug="new"), 200),
    "create below /preview": post("/preview/applications/", application(slug="new"), 200),
    "create with unknown members": post("/applications/", {**application(slug="new", id="x"), "more": 1}, 200),
    "create, slug missing": post("/applications/", application(name="x"), 422, "slug"),
    "create, slug null": post("/applications/", application(slug=None), 422, "slug"),
    "create, nothing": post("/applications/", application(), 422, "slug"),
    "create, no wrapper": post("/applications/", {}, 422, '"application"'),
    "create, a list": post("/applications/", [], 422),
    "create, taken": post("/applications/", application(slug="app"), 409, TAKEN + '"app"'),
    "create, taken by an archived one": post("/applications/", application(slug="gone"), 409, TAKEN + '"gone"'),
    "create, taken by a stranger": post("/applications/", application(slug="foreign"), 200),
    "create, reserved": post("/applications/", application(slug="__ag__x"), 400, "__ag__"),
    "create, id chosen": post(f"/applications/?application_id={NO_ID}", application(slug="new"), 200, NO_ID),
    "create, id taken": post(
        "/applications/?application_id=$app", application(slug="new"), 409, '"conflict":{"id":"$app"}'
    ),
    "create, id unreadable": post("/applications/?application_id=x", application(slug="new"), 422, '"query"'),
    "create, tags of numbers": post("/applications/", application(slug="new", tags={"a": 1}), 422, "tags"),
    "create, NUL in the name": post("/applications/", application(slug="new", name="a\0b"), 422, "U+0000"),
    "create, NUL in meta": post("/applications/", application(slug="new", meta={"a": ["\0"]}), 422, "U+0000"),
    "create, NUL in a tag's name": post("/applications/", application(slug="new", tags={"\0": "a"}), 422, "U+0000"),
    "create, name of a number": post("/applications/", application(slug="new", name=1), 422, "name"),
    "create, a flag in words": post(
        "/applications/", application(slug="new", flags={"is_snippet": "yes"}), 200, '"is_snippet":true'
    ),
    "create, a flag that is none": post(
        "/applications/", application(slug="new", flags={"is_snippet": "maybe"}), 422, "is_snippet"
    ),
    "get": Row("GET", "/applications/$app", None, 200, '"count":1'),
    "get with slash": Row("GET", "/applications/$app/", None, 200, '"count":1'),
    "get in capitals": Row("GET", "/applications/$APP", None, 200, '"count":1'),
    "get archived": Row("GET", "/applications/$gone", None, 200, '"deleted_at"'),
    "get unknown": Row("GET", f"/applications/{NO_ID}", None, 200, NONE),
    "get a stranger's": Row("GET", "/applications/$foreign", None, 200, NONE),
    "get, no id": Row("GET", "/applications/nope", None, 422, '["path","application_id"]'),
    "edit": Row("PUT", "/applications/$app", application(id="$app", name="New"), 200, '"name":"New"'),
    "edit, another id": Row("PUT", "/applications/$app", application(id="$other", name="x"), 400, "do not match"),
    "edit, without id": Row("PUT", "/applications/$app", application(name="x"), 400, "has no id"),
    "edit archived": Row("PUT", "/applications/$gone", application(id="$gone", name="x"), 200, NONE),
    "edit unknown": Row("PUT", f"/applications/{NO_ID}", application(id=NO_ID, name="x"), 200, NONE),
    "edit a stranger's": Row("PUT", "/applications/$foreign", application(id="$foreign", name="x"), 200, NONE),
    "edit, no body": Row("PUT", "/applications/$app", None, 422),
    "archive": post("/applications/$app/archive", None, 200, '"deleted_at"'),
    "archive unknown": post(f"/applications/{NO_ID}/archive", None, 200, NONE),
    "archive a stranger's": post("/applications/$foreign/archive", None, 200, NONE),
    "unarchive": post("/applications/$gone/unarchive", None, 200, '"count":1'),
    "unarchive unknown": post(f"/applications/{NO_ID}/unarchive", None, 200, NONE),
    "query": post("/applications/query", {}, 200, '"count":2'),
    "query without a body": post("/applications/query", None, 200, '"count":2'),
    "query with slash": post("/applications/query/", {}, 200, '"count":2'),
    "query with archived": post("/applications/query", {"include_archived": True}, 200, '"count":3'),
    "query, a list": post("/applications/query", [], 422),
    "query, a limit in words": post("/applications/query", {"windowing": {"limit": "many"}}, 422, "limit"),
    "query, a rate above 1": post("/applications/query", {"windowing": {"rate": 1.1}}, 422, "rate"),
    "query, a limit past every number": post("/applications/query", {"windowing": {"limit": 10**30}}, 200, '"count":2'),
    "query, a time before the first": post(
        "/applications/query", {"windowing": {"newest": "0001-01-01T00:00:00+14:00"}}, 422, "newest"
    ),
    "query, a time without a zone": post(
        "/applications/query", {"windowing": {"oldest": "2020-01-01T00:00:00"}}, 200, '"count":2'
    ),
    "query, NUL in the name": post("/applications/query", application(name="\0"), 422, "U+0000"),
    "query, a typo": post("/applications/query", application(slugg="app"), 422, '["body","application","slugg"]'),
    "query, a typo in a reference": post(
        "/applications/query", {"application_refs": [{"slugg": "app"}]}, 422, '["body","application_refs",0,"slugg"]'
    ),
    "query, an unknown flag": post("/applications/query", application(flags={"is_chatt": True}), 422, '"is_chatt"'),
    "query by a flag of the head": post("/applications/query", application(flags={"is_chat": False}), 200, '"count":2'),
    "query by parameters": post("/applications/query?application_slug=app&limit=1", None, 200, '"count":1'),
    "query with the scope": post(
        "/applications/query?project_id=x&scope_type=project&scope_id=y", {}, 200, '"count":2'
    ),
    "query by GET": Row("GET", "/applications/query", None, 405),
    "delete": Row("DELETE", "/applications/$app", None, 405),
}

VARIANTS = {
    "create": post("/applications/variants/", variant(application_id="$app", slug="new"), 200, '"name":"new"'),
    "create without slash": post("/applications/variants", variant(application_id="$app", slug="new"), 200),
    "create below /api/preview": post(
        "/api/preview/applications/variants/", variant(application_id="$app", slug="new"), 200
    ),
    "create, workflow_id": post(
        "/applications/variants/", variant(workflow_id="$app", slug="new"), 200, '"artifact_id":"$app"'
    ),
    "create, artifact_id": post(
        "/applications/variants/", variant(artifact_id="$app", slug="new"), 200, '"workflow_id":"$app"'
    ),
    "create, id null beside a synonym": post(
        "/applications/variants/", variant(application_id=None, artifact_id="$app", slug="new"), 200
    ),
    "create, id in capitals": post(
        "/applications/variants/", variant(application_id="$APP", slug="new"), 200, '"$app"'
    ),
    "create, parent archived": post("/applications/variants/", variant(application_id="$gone", slug="new"), 200),
    "create, unknown members": post(
        "/applications/variants/", variant(application_id="$app", slug="new", data=1, version=3), 200
    ),
    "create, taken": post(
        "/applications/variants/", variant(application_id="$app", slug="app.main"), 409, TAKEN + '"app.main"'
    ),
    "create, taken elsewhere": post(
        "/applications/variants/", variant(application_id="$app", slug="other.main"), 409, TAKEN
    ),
    "create, slug missing": post("/applications/variants/", variant(application_id="$app"), 422, "slug"),
    "create, slug null": post("/applications/variants/", variant(application_id="$app", slug=None), 422, "slug"),
    "create, reserved": post("/applications/variants/", variant(application_id="$app", slug="__ag__x"), 400, "__ag__"),
    "create, parent missing": post("/applications/variants/", variant(slug="new"), 422, '"application_id"'),
    "create, parent by slug": post(
        "/applications/variants/", variant(application_slug="app", slug="new"), 422, '"application_id"'
    ),
    "create, parent unknown": post("/applications/variants/", variant(application_id=NO_ID, slug="new"), 404, NO_ID),
    "create, parent of a stranger": post(
        "/applications/variants/", variant(application_id="$foreign", slug="new"), 404
    ),
    "create, parent no id": post(
        "/applications/variants/", variant(application_id="x", slug="new"), 422, "application_id"
    ),
    "create, nothing": post("/applications/variants/", variant(), 422),
    "create, no wrapper": post("/applications/variants/", {}, 422, '"application_variant"'),
    "create, no body": post("/applications/variants/", None, 422, '["body"]'),
    "create, a flag that is none": post(
        "/applications/variants/", variant(application_id="$app", slug="new", flags={"is_snippet": "x"}), 422
    ),
    "get": Row("GET", "/applications/variants/$main", None, 200, '"application_slug":"app"'),
    "get unknown": Row("GET", f"/applications/variants/{NO_ID}", None, 200, NONE),
    "get a stranger's": Row("GET", "/applications/variants/$foreign_main", None, 200, NONE),
    "get, no id": Row("GET", "/applications/variants/x", None, 422, '["path","application_variant_id"]'),
    "edit": Row("PUT", "/applications/variants/$main", variant(id="$main", description="d"), 200, '"description":"d"'),
    "edit, another id": Row("PUT", "/applications/variants/$main", variant(id="$empty"), 400, "do not match"),
    "edit unknown": Row("PUT", f"/applications/variants/{NO_ID}", variant(id=NO_ID), 200, NONE),
    "archive": post("/applications/variants/$main/archive", None, 200, '"deleted_at"'),
    "archive unknown": post(f"/applications/variants/{NO_ID}/archive", None, 200, NONE),
    "archive a stranger's": post("/applications/variants/$foreign_main/archive", None, 200, NONE),
    "unarchive": post("/applications/variants/$main/unarchive", None, 200, '"count":1'),
    "unarchive unknown": post(f"/applications/variants/{NO_ID}/unarchive", None, 200, NONE),
    "query": post("/applications/variants/query", {}, 200, '"count":3'),
    "query as the SDK does": post(
        "/applications/variants/query",
        {"application_refs": [{"slug": "app"}], "application_variant": {"slug": "app.main"}},
        200,
        '"count":1',
    ),
    "query by id and slug": post(
        "/applications/variants/query", {"application_refs": [{"id": "$app", "slug": "app"}]}, 200, '"count":2'
    ),
    "query by parameters": post("/applications/variants/query?application_slug=app", None, 200, '"count":2'),
    "query by two parameters": post(
        "/applications/variants/query?application_variant_id=$main&application_variant_id=$empty",
        None,
        200,
        '"count":2',
    ),
    "query, the body wins": post(
        "/applications/variants/query?application_slug=other", {"application_refs": [{"slug": "app"}]}, 200, '"count":2'
    ),
    "query by flags in the string": post(
        '/applications/variants/query?flags={"is_snippet":true}', None, 200, '"count":0'
    ),
    "query, flags that are no JSON": post("/applications/variants/query?flags={", None, 422, "flags"),
    "query, NaN in the string": post('/applications/variants/query?meta={"a":NaN}', None, 422, '"json_invalid"'),
    "query, an id unreadable": post("/applications/variants/query?application_id=x", None, 422, "application_id"),
    "query, an order unknown": post("/applications/variants/query?order=up", None, 422, "order"),
    "query, a wrong type": post("/applications/variants/query", {"application_refs": "app"}, 422, "application_refs"),
    "query, unknown members": post(
        "/applications/variants/query",
        {"application_ref": 1, "application_refs": [{"slug": "app"}]},
        422,
        '"application_ref"',
    ),
    "query, an unknown parameter": post(
        "/applications/variants/query?application=app", None, 422, '["query","application"]'
    ),
    "query, an unknown flag in the string": post(
        '/applications/variants/query?flags={"is_snipet":true}', None, 422, '["query","flags","is_snipet"]'
    ),
    "query by a flag of the head": post(
        "/applications/variants/query", variant(flags={"is_chat": True}), 200, '"count":0'
    ),
    "query by an artifact's version": post(
        "/applications/variants/query",
        {"application_refs": [{"slug": "app"}, {"version": "1"}]},
        400,
        "application_refs[1]",
    ),
    "query, a bare text as reference": post("/applications/variants/query", {"application_refs": ["app"]}, 422),
    "fork": post(FORKS, fork(**OF_MAIN), 200, '"forked_from":{"variant_id":"$main","revision_id":"$r2"}'),
    "fork up to a version": post(
        FORKS, fork(**OF_MAIN, application_revision_ref={"version": "1"}), 200, '"revision_id":"$r1"'
    ),
    "fork up to an id": post(
        FORKS, fork(**OF_MAIN, application_revision_ref={"id": "$r0"}), 200, '"revision_id":"$r0"'
    ),
    "fork, an empty revision": post(FORKS, fork(**OF_MAIN, application_revision_ref={}), 200, '"revision_id":"$r2"'),
    "fork by parameter": post(
        f"{FORKS}?application_variant_id=$main", fork(application_variant_ref={}), 200, '"variant_id":"$main"'
    ),
    "fork, two variants": post(
        f"{FORKS}?application_variant_id=$main", fork(application_variant_ref={"id": "$empty"}), 400, "variant"
    ),
    "fork, slug that is not the id's": post(
        FORKS, fork(application_variant_ref={"id": "$main", "slug": "x"}), 400, "variant_ref"
    ),
    "fork, no source": post(FORKS, fork(), 422, "application_variant_ref"),
    "fork, no variant": post(FORKS, OF_MAIN, 422, "application_variant"),
    "fork, slug missing": post(FORKS, fork(None, **OF_MAIN), 422, "slug"),
    "fork, slug taken": post(FORKS, fork("other.main", **OF_MAIN), 409, TAKEN + '"other.main"'),
    "fork, slug reserved": post(FORKS, fork("__ag__x", **OF_MAIN), 400, "__ag__"),
    "fork, source unknown": post(FORKS, fork(application_variant_ref={"id": NO_ID}), 400, "variant"),
    "fork, source of a stranger": post(FORKS, fork(application_variant_ref={"id": "$foreign_main"}), 400, "variant"),
    "fork, an empty source": post(FORKS, fork(application_variant_ref={}), 400, "variant_ref"),
    "fork, source by version": post(FORKS, fork(application_variant_ref={"version": "1"}), 400, "variant_ref"),
    "fork, nothing to copy": post(FORKS, fork(application_variant_ref={"slug": "app.empty"}), 400, "variant"),
    "fork, revision unknown": post(FORKS, fork(**OF_MAIN, application_revision_ref={"id": NO_ID}), 400, "variant"),
    "fork, version unknown": post(FORKS, fork(**OF_MAIN, application_revision_ref={"version": "9"}), 400, "variant"),
    "fork, revision of another": post(
        FORKS, fork(**OF_MAIN, application_revision_ref={"id": "$w0"}), 400, "does not match"
    ),
}

REVISIONS = {
    "commit": post(COMMITS, revision(**ON_MAIN, data={"parameters": {}}), 200, '"version":"3"'),
    "commit with slash": post(f"{COMMITS}/", revision(**ON_MAIN), 200),
    "commit, variant_id": post(COMMITS, revision(variant_id="$main"), 200, '"version":"3"'),
    "commit, workflow_variant_id": post(COMMITS, revision(workflow_variant_id="$main"), 200, '"version":"3"'),
    "commit, as the SDK does": post(
        COMMITS,
        revision(**ON_MAIN, application_id="$app", slug="0123456789ab", data={"parameters": {"a": None}}),
        200,
        '"slug":"0123456789ab"',
    ),
    "commit, ignored members": post(
        COMMITS, revision(**ON_MAIN, id=NO_ID, version=9, author=NO_ID, flags={"is_chat": True}), 200, '"is_chat":false'
    ),
    "commit, message alone": post(COMMITS, revision(**ON_MAIN, message="m"), 200, '"message":"m"'),
    "commit, variant missing": post(COMMITS, revision(application_id="$app"), 422, "application_variant_id"),
    "commit, variant unknown": post(COMMITS, revision(application_variant_id=NO_ID), 404, NO_ID),
    "commit, variant of a stranger": post(COMMITS, revision(application_variant_id="$foreign_main"), 404),
    "commit, variant no id": post(COMMITS, revision(application_variant_id="x"), 422, "application_variant_id"),
    "commit, another application": post(
        COMMITS, revision(**ON_MAIN, application_id="$other"), 409, '"conflict":{"application_id":"$other"}'
    ),
    "commit, application unknown": post(COMMITS, revision(**ON_MAIN, application_id=NO_ID), 409, '"conflict"'),
    "commit, slug taken": post(COMMITS, revision(**ON_MAIN, slug="w0"), 409, TAKEN + '"w0"'),
    "commit, slug reserved": post(COMMITS, revision(**ON_MAIN, slug="__ag__x"), 400, "__ag__"),
    "commit, unknown member of data": post(
        COMMITS, revision(**ON_MAIN, data={"foo": 1}), 422, '["body","application_revision","data","foo"]'
    ),
    "commit, NUL in data": post(COMMITS, revision(**ON_MAIN, data={"parameters": {"a": [{"b\0": 1}]}}), 422, "U+0000"),
    "commit, NUL in the script": post(COMMITS, revision(**ON_MAIN, data={"script": "\0"}), 422, "U+0000"),
    "commit, NUL in the message": post(COMMITS, revision(**ON_MAIN, message="\0"), 422, "U+0000"),
    "commit, no JSON Schema": post(
        COMMITS, revision(**ON_MAIN, data={"schemas": {"inputs": {"type": 3}}}), 422, "JSON Schema"
    ),
    "commit, parameters of a list": post(COMMITS, revision(**ON_MAIN, data={"parameters": []}), 422, "parameters"),
    "commit, url without host": post(COMMITS, revision(**ON_MAIN, data={"url": "http://"}), 422, "url"),
    "commit, ftp": post(COMMITS, revision(**ON_MAIN, data={"url": "ftp://x"}), 422, "url"),
    "commit, runtime unknown": post(COMMITS, revision(**ON_MAIN, data={"runtime": "cobol"}), 422, "runtime"),
    "commit, no wrapper": post(COMMITS, {}, 422, '"application_revision"'),
    "commit, the wrapper of old documents": post(COMMITS, {"application_revision_commit": {}}, 422),
    "commit, nothing": post(COMMITS, revision(), 422, "application_variant_id"),
    "commit, no body": post(COMMITS, None, 422),
    "commit on the head": post(COMMITS, revision(**ON_MAIN, base_revision_id="$r2"), 200, '"version":"3"'),
    "commit on an old base": post(
        COMMITS, revision(**ON_MAIN, base_revision_id="$r1"), 409, '"current_revision_id":"$r2"'
    ),
    "commit on another's base": post(COMMITS, revision(**ON_MAIN, base_revision_id="$w0"), 409, "revision_conflict"),
    "commit on a base without a head": post(
        COMMITS, revision(variant_id="$empty", base_revision_id="$r1"), 409, '"current_revision_id":null'
    ),
    "delta": post(
        COMMITS,
        revision(**ON_MAIN, delta={"set": {"parameters": {"x": 1}}}),
        200,
        '{"parameters":{"prompt":"2","x":1}}',
    ),
    "delta, removing": post(
        COMMITS,
        revision(**ON_MAIN, delta={"remove": ["parameters.prompt", "script.x"]}),
        200,
        '"data":{"parameters":{}}',
    ),
    "delta wins over data": post(
        COMMITS,
        revision(**ON_MAIN, data={"script": "s"}, delta={"set": {}}),
        200,
        '"data":{"parameters":{"prompt":"2"}}',
    ),
    "delta on nothing": post(
        COMMITS, revision(variant_id="$empty", delta={"set": {"script": "s"}}), 200, '"version":"0"'
    ),
    "delta, empty": post(COMMITS, revision(**ON_MAIN, delta={}), 422, "delta"),
    "delta, unknown member": post(COMMITS, revision(**ON_MAIN, delta={"set": {"foo": 1}}), 422, '"delta","set","foo"'),
    "delta, operations": post(COMMITS, revision(**ON_MAIN, delta={"operations": []}), 422, "operations"),
    "delta, variant unknown": post(COMMITS, revision(variant_id=NO_ID, delta={"set": {}}), 404),
    "delta on an old base": post(
        COMMITS, revision(**ON_MAIN, base_revision_id="$r0", delta={"set": {}}), 409, "revision_conflict"
    ),
    "first": post(
        "/applications/revisions/",
        revision(variant_id="$empty", data={"script": "s"}, message="m"),
        200,
        '"message":"Initial revision"',
    ),
    "first without slash": post("/applications/revisions", revision(variant_id="$empty"), 200, '"version":"0"'),
    "first, there is one": post("/applications/revisions/", revision(**ON_MAIN), 409, '"detail":"'),
    "first, slug taken": post("/applications/revisions/", revision(variant_id="$empty", slug="w0"), 409, TAKEN),
    "first, slug reserved": post("/applications/revisions/", revision(variant_id="$empty", slug="__ag__w"), 400),
    "first, variant unknown": post("/applications/revisions/", revision(variant_id=NO_ID), 404),
    "first, another application": post(
        "/applications/revisions/", revision(variant_id="$empty", application_id="$other"), 409, "application_id"
    ),
    "first, nothing": post("/applications/revisions/", revision(), 422, "application_variant_id"),
    "get": Row("GET", "/applications/revisions/$r1", None, 200, '"application_variant_slug":"app.main"'),
    "get unknown": Row("GET", f"/applications/revisions/{NO_ID}", None, 200, NONE),
    "get a stranger's": Row("GET", "/applications/revisions/$foreign_r0", None, 200, NONE),
    "get, no id": Row("GET", "/applications/revisions/x", None, 422, "application_revision_id"),
    "edit": Row(
        "PUT",
        "/applications/revisions/$r1",
        revision(id="$r1", name="n", flags={"is_chat": True}),
        200,
        '"is_chat":false',
    ),
    "edit, another id": Row("PUT", "/applications/revisions/$r1", revision(id="$r2"), 400, "do not match"),
    "edit unknown": Row("PUT", f"/applications/revisions/{NO_ID}", revision(id=NO_ID), 200, NONE),
    "archive": post("/applications/revisions/$r1/archive", None, 200, '"deleted_at"'),
    "archive unknown": post(f"/applications/revisions/{NO_ID}/archive", None, 200, NONE),
    "unarchive": post("/applications/revisions/$r1/unarchive", None, 200, '"count":1'),
    "unarchive unknown": post(f"/applications/revisions/{NO_ID}/unarchive", None, 200, NONE),
    "query": post("/applications/revisions/query", {}, 200, '"count":4'),
    "query of a variant": post(
        "/applications/revisions/query", {"application_variant_refs": [{"id": "$main"}]}, 200, '"count":3'
    ),
    "query, a version": post("/applications/revisions/query", revision(version="1"), 200, '"count":1'),
    "query, a version that is none": post("/applications/revisions/query", revision(version="x"), 200, '"count":0'),
    "query, a version of a variant": post(
        "/applications/revisions/query", revision(workflow_variant_id="$main", version="1"), 200, '"id":"$r1"'
    ),
    "query of another variant's versions": post(
        "/applications/revisions/query", revision(variant_id="$main", application_id="$other"), 200, '"count":0'
    ),
    "query, versions by reference": post(
        "/applications/revisions/query",
        {"application_variant_refs": [{"id": "$main"}], "application_revision_refs": [{"version": "1"}, {"id": "$r0"}]},
        200,
        '"count":2',
    ),
    "query, a reference that contradicts itself": post(
        "/applications/revisions/query",
        {"application_revision_refs": [{"id": "$r0", "version": "1"}]},
        200,
        '"count":0',
    ),
    "query by parameters": post(
        "/applications/revisions/query?application_variant_slug=app.main&limit=2", None, 200, '"count":2'
    ),
    "query, an author unreadable": post("/applications/revisions/query", revision(author="x"), 422, "author"),
    "deploy": post(
        "/applications/revisions/deploy",
        {"application_ref": {"slug": "app"}, "environment_ref": {"slug": "staging"}},
        200,
        '"id":"$r2"',
    ),
    "deploy unknown": post(
        "/applications/revisions/deploy",
        {"application_ref": {"slug": "none"}, "environment_ref": {"slug": "staging"}},
        404,
        "no revision of an application",
    ),
    "log": post(LOGS, logged(**ON_MAIN), 200, '"count":3'),
    "log of a revision": post(
        LOGS, logged(application_revision_id="$r1", application_variant_id="$empty"), 200, '"count":2'
    ),
    "log of an application": post(LOGS, logged(application_id="$app"), 200, '"count":3'),
    "log, depth": post(LOGS, logged(**ON_MAIN, depth="2"), 200, '"count":2'),
    "log, depth 0": post(LOGS, logged(**ON_MAIN, depth=0), 200, '"count":0'),
    "log, depth below 0": post(LOGS, logged(**ON_MAIN, depth=-1), 200, '"count":0'),
    "log, depth beyond": post(LOGS, logged(**ON_MAIN, depth=10**12), 200, '"count":3'),
    "log of nothing": post(LOGS, logged(), 200, '{"count":0,"application_revisions":[]}'),
    "log unknown": post(LOGS, logged(application_variant_id=NO_ID), 200, '{"count":0,"application_revisions":[]}'),
    "log of an unknown revision": post(LOGS, logged(application_revision_id=NO_ID), 200, '"count":0'),
    "log of an unknown application": post(LOGS, logged(application_id=NO_ID), 200, '"count":0'),
    "log of a stranger": post(LOGS, logged(application_variant_id="$foreign_main"), 200, '"count":0'),
    "log, archived ones": post(
        LOGS, {**logged(**ON_MAIN, include_archived=True), "include_archived": True}, 200, '"count":3'
    ),
    "log, a typo": post(LOGS, logged(**ON_MAIN, dept=1), 422, '["body","application_revisions","dept"]'),
    "log, no wrapper": post(LOGS, {}, 422, '"application_revisions"'),
    "retrieve": post(RETRIEVALS, {"application_ref": {"slug": "app"}}, 200, '"application_revision":{"id":"$r2"'),
    "retrieve a version": post(
        RETRIEVALS,
        {"application_ref": {"slug": "app"}, "application_revision_ref": {"version": "1"}},
        200,
        '{"id":"$r1"',
    ),
    "retrieve, nulls": post(
        RETRIEVALS, {"application_ref": None, **OF_MAIN, "key": None, "environment_ref": None}, 200, '{"id":"$r2"'
    ),
    "retrieve, resolved": post(RETRIEVALS, {"resolve": True, **OF_MAIN}, 200, '"embeds_resolved":0'),
    "retrieve, unknown slug": post(RETRIEVALS, {"application_ref": {"slug": "none"}}, 200, NONE),
    "retrieve, unknown version": post(
        RETRIEVALS, {**OF_MAIN, "application_revision_ref": {"version": "01"}}, 200, NONE
    ),
    "retrieve, no revision": post(RETRIEVALS, {"application_variant_ref": {"slug": "app.empty"}}, 200, NONE),
    "retrieve a stranger's": post(RETRIEVALS, {"application_revision_ref": {"id": "$foreign_r0"}}, 200, NONE),
    "retrieve, an empty reference": post(RETRIEVALS, {"application_ref": {}}, 200, NONE),
    "retrieve, a version of an application": post(RETRIEVALS, {"application_ref": {"version": "1"}}, 200, NONE),
    "retrieve, nothing": post(RETRIEVALS, {}, 400, "_ref"),
    "retrieve, no body": post(RETRIEVALS, None, 400, "_ref"),
    "retrieve, unknown members": post(RETRIEVALS, {"app": 1}, 422, '["body","app"]'),
    "retrieve, a version alone": post(RETRIEVALS, {"application_revision_ref": {"version": "1"}}, 400, "variant_ref"),
    "retrieve, a variant by version": post(
        RETRIEVALS, {"application_variant_ref": {"version": "1"}}, 400, "variant_ref"
    ),
    "retrieve, a number as version": post(
        RETRIEVALS, {**OF_MAIN, "application_revision_ref": {"version": 1}}, 422, "version"
    ),
    "retrieve, contradiction": post(
        RETRIEVALS, {"application_ref": {"slug": "other"}, **OF_MAIN}, 400, "does not match"
    ),
    "retrieve, a key alone": post(RETRIEVALS, {"key": "app.revision"}, 400, "environment_ref"),
    "retrieve, environment unknown": post(
        RETRIEVALS, {"environment_ref": {"slug": "none"}, "key": "app.revision"}, 404
    ),
    "retrieve, a bare text": post(RETRIEVALS, {"application_ref": "app"}, 422, "application_ref"),
    "resolve": post("/applications/revisions/resolve", OF_MAIN, 200, '"resolution_info"'),
    "resolve inline": post(
        "/applications/revisions/resolve",
        revision(data={"parameters": {"a": None}}),
        200,
        '{"data":{"parameters":{"a":null}}}',
    ),
    "resolve, an embed": post(
        "/applications/revisions/resolve",
        revision(data={"script": "@{{application.slug=app, path=parameters.prompt}}"}),
        200,
        '{"data":{"script":"2"}}',
    ),
    "resolve, an embed of a stranger's": post(
        "/applications/revisions/resolve",
        revision(data={"script": "@{{application.slug=foreign}}"}),
        400,
        "data.script: ",
    ),
    "resolve, a typo": post("/applications/revisions/resolve", {**OF_MAIN, "max_deep": 1}, 422, '["body","max_deep"]'),
    "resolve inline without data": post("/applications/revisions/resolve", revision(), 400, "data"),
    "resolve unknown": post("/applications/revisions/resolve", {"application_ref": {"slug": "none"}}, 200, NONE),
    "check": post(
        "/applications/revisions/check",
        {
            **revision(
                data={"parameters": {"n": 1}, "schemas": {"parameters": {"properties": {"n": {"type": "string"}}}}}
            ),
            "from": "$r0",
        },
        200,
        '"problems":[{"path":"/parameters/n","message":"1 is not of type \\"string\\""}]',
    ),
    "check without a base": post(
        "/applications/revisions/check",
        revision(data={"parameters": {"n": 1}}),
        200,
        '{"count":1,"changes":[{"op":"added","path":"/parameters","to":{"n":1}}],"problems":[]}',
    ),
    "check by a schema that cannot be used": post(
        "/applications/revisions/check",
        revision(data={"schemas": {"parameters": {"$ref": "https://example.com/schema"}}}),
        200,
        "Schemas.parameters cannot be used",
    ),
    "check, a typo": post("/applications/revisions/check", revision(data={"paramters": {}}), 422, '"paramters"'),
    "check without data": post("/applications/revisions/check", {**revision(), "from": "$r0"}, 200, '"op":"removed"'),
    "check, unknown base": post("/applications/revisions/check", {**revision(data={}), "from": NO_ID}, 404, NO_ID),
    "check, a stranger's base": post(
        "/applications/revisions/check", {**revision(data={}), "from": "$foreign_r0"}, 404
    ),
    "diff": Row(
        "GET",
        "/applications/revisions/diff?from=$r0&to=$r2",
        None,
        200,
        '{"op":"changed","path":"/parameters/prompt","from":"0","to":"2"}',
    ),
    "diff with itself": Row(
        "GET", "/applications/revisions/diff?from=$r0&to=$r0", None, 200, '{"count":0,"changes":[]'
    ),
    "diff across variants": Row("GET", "/applications/revisions/diff?from=$r0&to=$w0", None, 200, '"op":"removed"'),
    "diff, one missing": Row("GET", "/applications/revisions/diff?from=$r0", None, 422, '["query","to"]'),
    "diff, unknown": Row("GET", f"/applications/revisions/diff?from=$r0&to={NO_ID}", None, 404, NO_ID),
    "diff, a stranger's": Row("GET", "/applications/revisions/diff?from=$foreign_r0&to=$r0", None, 404),
    "revert": post("/applications/revisions/$r0/revert", None, 200, '"message":"Revert to version 0"'),
    "revert on the head": post(
        "/applications/revisions/$r0/revert", revision(base_revision_id="$r2", message="back"), 200, '"message":"back"'
    ),
    "revert on an old base": post(
        "/applications/revisions/$r0/revert", revision(base_revision_id="$r1"), 409, '"current_revision_id":"$r2"'
    ),
    "revert, slug taken": post("/applications/revisions/$r0/revert", revision(slug="w0"), 409, TAKEN),
    "revert, slug reserved": post("/applications/revisions/$r0/revert", revision(slug="__ag__x"), 400),
    "revert unknown": post(f"/applications/revisions/{NO_ID}/revert", {}, 404, NO_ID),
    "revert a stranger's": post("/applications/revisions/$foreign_r0/revert", {}, 404),
}

SIMPLE = {
    "create": post(
        "/simple/applications/",
        application(slug="new", data={"parameters": {"a": 1}}),
        200,
        '"data":{"parameters":{"a":1}}',
    ),
    "create without slash": post("/simple/applications", application(slug="new"), 200, '"data":{}'),
    "create, taken": post("/simple/applications/", application(slug="app"), 409, TAKEN + '"app"'),
    "create, reserved": post("/simple/applications/", application(slug="__ag__"), 400),
    "create, slug missing": post("/simple/applications/", application(), 422, "slug"),
    "create, unknown member of data": post(
        "/simple/applications/", application(slug="new", data={"foo": 1}), 422, "foo"
    ),
    "create, id taken": post(
        "/simple/applications/?application_id=$app", application(slug="new"), 409, '"conflict":{"id"'
    ),
    "get": Row("GET", "/simple/applications/$app", None, 200, '"revision_id":"$r2"'),
    "get unknown": Row("GET", f"/simple/applications/{NO_ID}", None, 200, NONE),
    "get a stranger's": Row("GET", "/simple/applications/$foreign", None, 200, NONE),
    "get without variants": Row("GET", "/simple/applications/$gone", None, 200, NONE),
    "edit": Row(
        "PUT", "/simple/applications/$app", application(id="$app", data={"script": "s"}), 200, '"data":{"script":"s"}'
    ),
    "edit as the SDK does": Row(
        "PUT", "/simple/applications/$app", application(id="$app", slug="app", name="App"), 200, '"name":"App"'
    ),
    "edit, another id": Row("PUT", "/simple/applications/$app", application(id="$other"), 400),
    "edit unknown": Row("PUT", f"/simple/applications/{NO_ID}", application(id=NO_ID), 200, NONE),
    "edit archived": Row("PUT", "/simple/applications/$gone", application(id="$gone", name="x"), 200, NONE),
    "archive": post("/simple/applications/$app/archive", None, 200, '"deleted_at"'),
    "archive unknown": post(f"/simple/applications/{NO_ID}/archive", None, 200, NONE),
    "unarchive": post("/simple/applications/$app/unarchive", None, 200, '"count":1'),
    "unarchive unknown": post(f"/simple/applications/{NO_ID}/unarchive", None, 200, NONE),
    "query": post("/simple/applications/query", {}, 200, '"count":2'),
    "query as the SDK does": post("/simple/applications/query", application(slug="app"), 200, '"count":1'),
    "query, an unknown parameter": post("/simple/applications/query?slug=app", None, 422, '["query","slug"]'),
    "query by a flag": post("/simple/applications/query", application(flags={"is_custom": False}), 200, '"count":2'),
    "query below /preview": post("/api/preview/simple/applications/query", {}, 200, '"count":2'),
}

BAD = {
    f"{wrapper}, slug {slug!r}": post(path, {wrapper: {"slug": slug, **members}, **more}, 422, "slug")
    for slug in BAD_SLUGS
    for path, wrapper, members, more in (
        ("/applications/", "application", {}, {}),
        ("/applications/variants/", "application_variant", {"application_id": "$app"}, {}),
        (FORKS, "application_variant", {}, OF_MAIN),
        (COMMITS, "application_revision", ON_MAIN, {}),
        ("/simple/applications/", "application", {}, {}),
    )
}

ROWS = {
    f"{table}: {name}": row
    for table, rows in (
        ("applications", ARTIFACTS),
        ("variants", VARIANTS),
        ("revisions", REVISIONS),
        ("simple", SIMPLE),
        ("bad", BAD),
    )
    for name, row in rows.items()
}


class World:
    """What exists in every row, by short names: two applications, an archived one, and one of another project."""

    def __init__(self, mine: HistoryClient, stranger: HistoryClient) -> None:
        self.mine = mine
        self.stranger = stranger
        self.names: dict[str, str] = {}

    async def fill(self) -> None:
        app, main, (r0, r1, r2) = await self.mine.branch("app", commits=3)
        empty = await self.mine.variant(app["id"], "app.empty")
        other, other_main, _ = await self.mine.branch("other")
        w0 = await self.mine.commit(other_main["id"], slug="w0")
        gone = await self.mine.application("gone")
        await self.mine.post(f"/applications/{gone['id']}/archive")
        foreign, foreign_main, (foreign_r0,) = await self.stranger.branch("foreign", commits=1)
        entities = {
            "app": app, "main": main, "r0": r0, "r1": r1, "r2": r2, "empty": empty, "other": other, "w0": w0, "gone": gone,
            "foreign": foreign, "foreign_main": foreign_main, "foreign_r0": foreign_r0,
        }  # fmt: skip
        self.names = {name: entity["id"] for name, entity in entities.items()}
        self.names["APP"] = UUID(app["id"]).hex.upper()


FAMILIES: dict[str, type[HistoryClient]] = {"applications": HistoryClient, "evaluators": EvaluatorClient}
"""The table holds for evaluators too, under their names."""


@pytest.fixture(params=list(FAMILIES.values()), ids=list(FAMILIES))
async def world(shared_database: Database, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async with clients_of(shared_database, count=2, client=request.param) as [mine, stranger]:
        made = World(mine, stranger)
        await made.fill()
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=list(FAMILIES.values()), ids=list(FAMILIES))
async def lasting_world(shared_postgres: PostgresSettings, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async with (
        open_database(shared_postgres) as database,
        clients_of(database, count=2, client=request.param) as [mine, stranger],
    ):
        made = World(mine, stranger)
        await made.fill()
        yield made


WRITTEN = {name: row for name, row in ROWS.items() if not row.leaves_no_trace}
READ = {name: row for name, row in ROWS.items() if row.leaves_no_trace}


@pytest.mark.parametrize("row", WRITTEN.values(), ids=WRITTEN.keys())
async def test_route_that_writes(world: World, row: Row):
    await check(world.mine, row, world.names)


@pytest.mark.asyncio(loop_scope="module")
async def test_routes_that_read_or_fail_change_nothing(lasting_world: World):
    before = await counts(lasting_world.mine)

    for name, row in READ.items():
        with case(name):
            await check(lasting_world.mine, row, lasting_world.names)

    assert await counts(lasting_world.mine) == before


async def counts(client: HistoryClient) -> list[int]:
    paths = [f"/{path}/query" for path in ("applications", "applications/variants", "applications/revisions")]
    return [(await client.post(path, {"include_archived": True}))["count"] for path in paths]


def test_the_table_has_every_route():
    assert untested(APPLICATION_ROUTES, ROWS.values()) == []


async def test_request_without_a_key_learns_nothing(world: World):
    for method, path in (
        ("GET", f"/applications/{uuid4()}"),
        ("POST", COMMITS),
        ("POST", "/simple/applications/query"),
    ):
        status, body = await world.mine.try_call(method, path, headers={"Authorization": "none"}, json={})

        assert (status, body) == (401, {"detail": {"message": "Unauthorized"}})
