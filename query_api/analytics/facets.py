"""``POST /spans/facets/query``: the attribute paths of spans, or the most frequent values of some keys (contract §3.5).

Both count visible spans of a sample and look at leaves (``common/clickhouse/leaves.py``), which have no
paths of arrays. A path with a segment ``0`` after the first one is taken as one of an array, so whatever is below the
path before that segment is counted as one array, unless a scalar is there. Spans with the same paths and types are
counted together first: there are few shapes of spans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from common.clickhouse.select import Select
from common.errors import OutOfMemory
from query_api.analytics.facets_models import FacetsQuery
from query_api.analytics.groups import SpanWindow
from query_api.analytics.groups_models import FieldAndKey
from query_api.explain.explain import explained
from query_api.filter.language import ValuePlace
from query_api.filter.parse import parse_place
from query_api.filter.sql.compile import compile_node
from query_api.filter.sql.expressions import Parameters
from query_api.filter.sql.values import read_typed, value_of
from query_api.request.route import Request, Response
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.sample import SpanSample, newest_spans, visible_rows
from query_api.spans.window import Conditions, Resolve, query_of

VALUE_BYTES_MAX: Final = 1_024
"""Of a value that a response lists."""

ROWS_AT_ONCE: Final = 256
"""Spans that the engine works on together if all together take too much memory, as with long arrays of numbers. It
takes 80 ms more."""

ARRAYS_MAX: Final = 32
"""Arrays of a span that are recognized, those in no other array first: the engine copies them for each leaf."""

_TYPES: Final = {"s": "string", "n": "number", "b": "boolean", "a": "array", "o": "object"}
"""The first letter of a leaf and the type that it means, in the order of responses."""

_SHAPE: Final = {
    "paths": "mapKeys(leaves)",
    "letters": "arrayStringConcat(arrayMap(typed -> left(typed, 1), mapValues(leaves)))",
}
_TOO_LONG: Final = "long"
"""Stands for every longer value; not a typed text."""

_NO_SCALARS: Final = ("", "a", "o")
"""Typed texts of nothing, an empty array and an empty object."""

_ABOVE_FIRST_ELEMENT: Final = "^(.+?[.])0(?:[.]|$)"
_IS_NESTED: Final = "match(array, '.[.][0-9]+[.]')"
_FIRST_ARRAYS: Final = (
    f"arraySlice(arraySort(array -> ({_IS_NESTED}, array), arrayDistinct(arrayFilter("
    f"array -> array != '', arrayMap(path -> extract(path, '{_ABOVE_FIRST_ELEMENT}'), paths)))), 1, {ARRAYS_MAX})"
)
_ARRAYS: Final = f"arrayFilter(array -> NOT has(paths, left(array, -1)), {_FIRST_ARRAYS})"
_LEAVES: Final = "arrayZip(CAST(paths, 'Array(String)'), extractAll(letters, '.'))"
_IS_OUTSIDE: Final = "NOT arrayExists(array -> startsWith(leaf.1, array), arrays)"


async def query_facets(resolve: Resolve, request: Request) -> Response:
    """Return the attribute paths that occur in spans, or the most frequent values of keys.

    Of the window the bounds and the rate count.
    """
    filtering, windowing = await query_of(request, resolve)
    query: FacetsQuery = request.body
    spans = project_spans(request)
    places = [parse_place(key.field, key.key, path=f"keys[{index}]") for index, key in enumerate(query.keys or [])]
    now_us = request.context.clock.now_ns() // 1_000
    matching = await compile_node(filtering, now_us=now_us)
    window = SpanWindow.of(windowing, now_us=now_us).conditions()
    sample = await newest_spans(spans, Conditions(*window), matching, request.context.limits)
    if query.keys is None:
        facets = await _path_facets(spans, sample, limit=query.limit)
    else:
        facets = await _value_facets(spans, sample, query.keys, places, limit=query.limit)
    members: dict[str, Any] = {"count": len(facets), "facets": facets}
    if query.keys is None and (scores := await _score_facets(spans, sample, limit=query.limit)):
        members["scores"] = scores
    if (sampled := sample.sampled()) is not None:
        members["sampled"] = sampled.model_dump(exclude_none=True)
    if query.explain:
        members["explain"] = orjson.Fragment(await explained(spans, filtering))
    return Response(orjson.dumps(members))


async def _path_facets(spans: ProjectSpans, sample: SpanSample, *, limit: int) -> list[dict[str, Any]]:
    project_id, shape = spans.project_id, ("paths", "letters")
    rows_of_sample = visible_rows(project_id, _SHAPE, sample.parameters)
    shapes = Select(project_id, rows_of_sample, [*shape, "count() AS times"], group_by=shape)
    with_arrays = Select(project_id, shapes, ["times", f"{_LEAVES} AS leaves", f"{_ARRAYS} AS arrays"])
    every = "arrayDistinct(arrayConcat(arrayMap(array -> (left(array, -1), 'a'), arrays), leaves))"
    counted = f"arrayFilter(leaf -> {_IS_OUTSIDE}, {every})"
    query = Select(
        project_id,
        Select(project_id, with_arrays, ["times", f"arrayJoin({counted}) AS leaf"]),
        ["leaf.1 AS path", "groupUniqArray(leaf.2) AS letters", "sum(times) AS spans_count"],
        where=["position(path, '\\0') = 0"],
        group_by=["path"],
        order_by=["spans_count DESC", "path"],
        limit=limit,
    )
    try:
        rows = await spans.select(query, step="paths")
    except OutOfMemory:
        rows = await spans.select(query, step="paths", settings={"max_block_size": ROWS_AT_ONCE})
    return [
        {"path": row["path"].decode(), "types": _types(row["letters"]), "count": row["spans_count"]}
        for row in rows.to_pylist()
    ]


async def _score_facets(spans: ProjectSpans, sample: SpanSample, *, limit: int) -> list[dict[str, Any]]:
    named = {"scored": "mapApply((name, typed) -> (name, left(typed, 1)), score_values)"}
    rows_of_sample = visible_rows(spans.project_id, named, sample.parameters)
    query = Select(
        spans.project_id,
        Select(spans.project_id, rows_of_sample, ["arrayJoin(scored) AS score"]),
        ["score.1 AS name", "groupUniqArray(score.2) AS letters", "count() AS spans_count"],
        group_by=["name"],
        order_by=["spans_count DESC", "name"],
        limit=limit,
    )
    rows = await spans.select(query, step="scores")
    return [
        {"name": row["name"].decode(), "types": _types(row["letters"]), "count": row["spans_count"]}
        for row in rows.to_pylist()
    ]


def _types(letters: Sequence[bytes]) -> list[str]:
    return [name for letter, name in _TYPES.items() if letter.encode() in letters]


async def _value_facets(
    spans: ProjectSpans, sample: SpanSample, keys: Sequence[FieldAndKey], places: Sequence[ValuePlace], *, limit: int
) -> list[dict[str, Any]]:
    parameters = Parameters()
    parameters.values.update(sample.parameters)
    typed = (value_of(place, parameters).typed for place in places)
    columns = {f"typed{index}": expression for index, expression in enumerate(typed)}
    bounded = (f"if(length({name}) > {VALUE_BYTES_MAX} + 1, '{_TOO_LONG}', {name})" for name in columns)
    numbered = ", ".join(f"({index}, {value})" for index, value in enumerate(bounded))
    project_id = spans.project_id
    rows_of_sample = visible_rows(project_id, columns, parameters.values)
    counted = Select(
        project_id,
        Select(project_id, rows_of_sample, [f"arrayJoin([{numbered}]) AS value"]),
        ["value.1 AS facet", "value.2 AS typed", "count() AS times"],
        where=[f"typed NOT IN {_NO_SCALARS}"],
        group_by=["facet", "typed"],
    )
    query = Select(
        project_id,
        counted,
        ["*", "sum(times) OVER (PARTITION BY facet) AS total"],
        order_by=["facet", f"typed = '{_TOO_LONG}'", "times DESC", "typed"],
        limit_by=f"{limit} BY facet",
    )
    found: dict[int, list[Mapping[str, Any]]] = {index: [] for index in range(len(keys))}
    rows = await spans.select(query, step="values")
    for row in rows.to_pylist():
        found[row["facet"]].append(row)
    return [_value_facet(key, found[index]) for index, key in enumerate(keys)]


def _value_facet(key: FieldAndKey, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    listed = [(row["typed"].decode(), row["times"]) for row in rows if row["typed"].decode() != _TOO_LONG]
    values = [{"value": read_typed(typed), "count": times} for typed, times in listed]
    others = rows[0]["total"] - sum(times for _, times in listed) if rows else 0
    return {
        "field": key.field,
        **({} if key.key is None else {"key": key.key}),
        "values": values,
        **({"others": others} if others else {}),
    }
