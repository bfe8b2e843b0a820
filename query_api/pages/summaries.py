"""Pages of traces as summaries: one line for each trace, as lists show them.

The search is that of ``/traces/query``; of the traces of a page, only narrow columns are read, and texts of two spans
if they are asked for (``trace_texts.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict, Field

from common.errors import InvalidInput
from common.fair_share import in_thread
from common.ids import span_id_hex, trace_id_hex
from common.json_values import json_number
from common.parts import parts_of_size
from common.span import NO_METRICS, RUNNING, StatusCode, Usage
from common.span_version import ENDED
from common.times import format_us
from query_api.explain.explain import Explanation
from query_api.pages.trace_scores import SCORES, trace_scores
from query_api.pages.trace_search import FoundTrace
from query_api.pages.trace_texts import ATTRIBUTES_MAX, TRACES_MAX, TextMembers, trace_texts
from query_api.pages.traces import TracesQuery, page_of_traces, spans_count_of
from query_api.request.json_body import ApiModel, Listed, ShownTime
from query_api.request.route import Request, Response
from query_api.spans.narrow_rows import COLUMNS, USER, narrow_rows
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.rows import LARGE_SPANS
from query_api.spans.unfit_windows import refuse_feed
from query_api.spans.usage import TraceSums
from query_api.spans.versions import Integers, TracePosition, Version, id_bytes, integers_of, values_of
from query_api.spans.window import Resolve, query_of
from query_api.spans.windowing import IsComplete, WindowingResponse

SPANS_PER_READ: Final = 100_000
"""Of the traces of one read together: 20 MB."""

Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

_US_PER_MS: Final = 1_000
_BY_TRACE: Final = itemgetter(*map(Version._fields.index, ("trace_id", "start_us", "span_id")))


_EXAMPLE: Final[dict[str, Any]] = {
    "trace_id": "5b8efff798038103d269b633813fc60c",
    "span_id": "eee19b7ec3c1b174",
    "span_name": "answer the question",
    "span_type": "agent",
    "trace_type": "invocation",
    "status_code": "STATUS_CODE_UNSET",
    "service": "city-guide",
    "start_time": "2026-01-05T03:04:05Z",
    "end_time": "2026-01-05T03:04:06.5Z",
    "latest_match": "2026-01-05T03:04:06Z",
    "duration": 1500,
    "spans_count": 4,
    "errors_count": 1,
    "models": ["gpt-4o-mini-2024-07-18"],
    "tokens": 58,
    "cost": 0.00001905,
    "session_id": "session-7f31",
    "user_id": "user-12",
    "question": "What is the capital of France?",
    "answer": "Paris.",
    "scores": [{"name": "Relevance", "value": 0.9, "label": "good"}],
}

_SUMMARY_COLUMNS: Final = (*COLUMNS, f"{USER} AS user", f"{SCORES} AS scores")


class SummariesQuery(TracesQuery):
    """A query for summaries of the traces that have a matching span."""

    include_texts: bool | None = Field(
        None, description="Whether the summaries have `question` and `answer`. A page then holds at most 1,000 traces."
    )
    include_attributes: Listed[str] | None = Field(
        None,
        max_length=ATTRIBUTES_MAX,
        description="Paths of attributes that the summaries show. A page then holds at most 1,000 traces.",
    )


class TraceScoreModel(ApiModel):
    """A score of a trace: of the span with the highest value of this name, else of the earliest that has it."""

    name: str
    value: float | None = None
    label: str | None = None


class SummaryModel(ApiModel):
    """A trace in one line. The root is the earliest span without a parent, else the earliest span."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    trace_id: str
    span_id: str = Field(description="The root.")
    span_name: str = Field(description="The name of the root.")
    span_type: str = Field(description="The type of the root.")
    trace_type: str
    status_code: str = Field(description="The status of the root. It may be good although another span has an error.")
    service: str | None = Field(None, description="`service.name` of the resource of the root.")
    start_time: ShownTime = Field(description="The start of the earliest span.")
    end_time: ShownTime = Field(
        description="The latest end of its spans; of a span that is running, its start counts instead."
    )
    latest_match: ShownTime = Field(
        description="The start of the latest span that matches the query: the place of the trace in the order."
    )
    duration: float = Field(description="Milliseconds from `start_time` to `end_time`.")
    state: Literal["running"] | None = Field(None, description="`running` while one of its spans is.")
    spans_count: int
    errors_count: int = Field(description="Spans with the status `STATUS_CODE_ERROR`.")
    models: list[str] | None = Field(None, description="The distinct models of the spans, sorted.")
    tokens: float | None = Field(None, description="Tokens of the whole trace, each model call once.")
    cost: float | None = Field(None, description="Costs of the whole trace, each model call once.")
    session_id: str | None = Field(None, description="The session of the root, else of the earliest span with one.")
    user_id: str | None = Field(None, description="The user of the root, else of the earliest span with one.")
    question: str | None = Field(
        None,
        description="With `include_texts`: the last message of a user in the inputs of the root, else their first"
        " text; if it has none, those of the last model call. At most 200 characters, then `…`.",
    )
    answer: str | None = Field(
        None,
        description="With `include_texts`: the last text of the outputs of the root; if it has none, that of the last"
        " model call. At most 200 characters, then `…`.",
    )
    attributes: dict[str, Any] | None = Field(
        None,
        description="The `include_attributes` by their paths: of the root, else of the last model call. Texts are cut"
        " as `question` is.",
    )
    scores: list[TraceScoreModel] | None = Field(None, description="The scores of the spans, one of each name.")


class SummariesResponse(ApiModel):
    """Summaries of traces in order."""

    count: int
    summaries: list[SummaryModel]
    windowing: WindowingResponse | None = None
    complete: IsComplete = None
    explain: Explanation = None


class SummariesInProgress:
    """The summaries of a page so far, in order."""

    is_cut = False
    """A page ends at its limit, whatever the size of its traces."""

    def __init__(self) -> None:
        self.traces: list[bytes] = []
        self.ends_at: TracePosition | None = None

    def add(self, part: Sequence[FoundTrace], summaries: dict[bytes, bytes]) -> None:
        """Add the traces that still exist. ``summaries`` are by trace id."""
        for found in part:
            summary = summaries.get(found.position.trace_id)
            if summary is not None:
                self.traces.append(summary)
            self.ends_at = found.position


async def query_summaries(resolve: Resolve, request: Request) -> Response:
    """Return a page of the traces that have a matching span, latest match first, in one line each."""
    query: SummariesQuery = request.body
    filtering, windowing = await query_of(request, resolve)
    refuse_feed(windowing)
    members = TextMembers(bool(query.include_texts), tuple(dict.fromkeys(query.include_attributes or ())))
    if members and (windowing.limit or 0) > TRACES_MAX:
        raise InvalidInput(f"windowing.limit: a page with texts or attributes has at most {TRACES_MAX:,} traces.")
    spans = project_spans(request)
    read = partial(read_summaries, spans, members=members)
    page = await page_of_traces(request, spans, filtering, windowing, kind="summaries", read=read)
    return Response(b'{"count":%d,"summaries":[%b]%b}' % (len(page.items), b",".join(page.items), page.members))


async def read_summaries(
    spans: ProjectSpans, found: Sequence[FoundTrace], *, members: TextMembers
) -> SummariesInProgress:
    """Return the summaries of traces. One that was deleted meanwhile is left out."""
    page = SummariesInProgress()
    for part in parts_of_size(found, SPANS_PER_READ, spans_count_of):
        latest = sorted((version for trace in part for version in trace.latest), key=_BY_TRACE)
        read = await narrow_rows(spans, latest, _SUMMARY_COLUMNS)
        if not read.rows.num_rows:
            page.add(part, {})
            continue
        sums = {trace.position.trace_id: trace.sums for trace in part} | dict(read.current_sums or {})
        groups = _Groups.of(read.rows)
        roots = groups.first_of(_are_roots(read.rows))
        texts = await trace_texts(spans, read.rows, roots, groups.end, members) if members else ()
        matches_us = {trace.position.trace_id: trace.position.start_us for trace in part}
        build = partial(summaries_of, read.rows, sums, matches_us, groups, roots, texts)
        page.add(part, await in_thread(build) if read.rows.num_rows > LARGE_SPANS else build())
    return page


def summaries_of(
    rows: pa.Table,
    sums: TraceSums,
    matches_us: Mapping[bytes, int],
    groups: _Groups,
    root_rows: Integers,
    texts: Sequence[dict[str, Any]],
) -> dict[bytes, bytes]:
    """Return the summary of each trace as JSON, by trace id. ``rows`` are by trace id, start and span id;
    ``matches_us`` are the latest matches of the traces; ``texts`` are further members of each trace, or empty.
    """
    roots = rows.take(pa.array(root_rows))
    trace_ids = values_of(roots, "trace_id")
    starts_us = integers_of(rows, "start_us")[groups.begin]
    ends_us = np.maximum.reduceat(integers_of(rows, "end_us"), groups.begin)
    codes = integers_of(rows, "status_code")
    are_errors = codes == StatusCode.STATUS_CODE_ERROR.value
    are_running = np.logical_or.reduceat(integers_of(rows, "version") < ENDED, groups.begin)
    used = [sums.get(trace_id, NO_METRICS) for trace_id in trace_ids]
    columns: dict[str, Iterable[Any]] = {
        "trace_id": map(trace_id_hex, trace_ids),
        "span_id": map(span_id_hex, values_of(roots, "span_id")),
        "span_name": _texts(roots, "name"),
        "span_type": _texts(roots, "span_type"),
        "trace_type": _texts(roots, "trace_type"),
        "status_code": (StatusCode(code).name for code in codes[root_rows].tolist()),
        "service": (text or None for text in _texts(roots, "service")),
        "start_time": map(format_us, starts_us.tolist()),
        "end_time": map(format_us, ends_us.tolist()),
        "latest_match": (format_us(matches_us[trace_id]) for trace_id in trace_ids),
        "duration": (json_number(us / _US_PER_MS) for us in (ends_us - starts_us).tolist()),
        "state": (RUNNING if is_running else None for is_running in are_running),
        "spans_count": (groups.end - groups.begin).tolist(),
        "errors_count": np.add.reduceat(are_errors, groups.begin, dtype=np.int64).tolist(),
        "models": _models(rows, groups),
        "tokens": (_total(metrics[0:3]) for metrics in used),
        "cost": (_total(metrics[3:6]) for metrics in used),
        "session_id": _texts_of_traces(rows, "session", groups, root_rows),
        "user_id": _texts_of_traces(rows, "user", groups, root_rows),
        "scores": trace_scores(rows, groups.end),
    }
    summaries = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    triples = zip(trace_ids, summaries, texts or repeat({}), strict=False)
    return {trace_id: _present({**summary, **members}) for trace_id, summary, members in triples}


class _Groups(NamedTuple):
    """Which rows are those of one trace: from ``begin`` to before ``end``, both for each trace."""

    begin: Integers
    end: Integers

    @classmethod
    def of(cls, rows: pa.Table) -> _Groups:
        ids = np.frombuffer(id_bytes(rows, "trace_id"), np.uint64).reshape(rows.num_rows, -1)
        others = np.flatnonzero((ids[1:] != ids[:-1]).any(axis=1)) + 1
        return cls(np.concatenate(([0], others)), np.concatenate((others, [rows.num_rows])))

    def first_of(self, flags: Flags) -> Integers:
        """Return the first flagged row of each trace, or its first row if none is flagged."""
        flagged = np.append(np.flatnonzero(flags), len(flags))
        found = flagged[np.searchsorted(flagged, self.begin)]
        return np.where(found < self.end, found, self.begin)


def _are_roots(rows: pa.Table) -> Flags:
    parents = np.frombuffer(id_bytes(rows, "parent_id"), np.uint64).reshape(rows.num_rows, -1)
    are_roots: Flags = (parents == 0).all(axis=1)
    return are_roots


def _texts(rows: pa.Table, name: str) -> list[str]:
    return [text.decode() for text in values_of(rows, name)]


def _models(rows: pa.Table, groups: _Groups) -> list[list[str] | None]:
    """Return the distinct models of each trace."""
    encoded = rows.column("model").combine_chunks().dictionary_encode()
    texts = [text.decode() for text in encoded.dictionary.to_pylist()]
    places = np.repeat(np.arange(len(groups.begin)), groups.end - groups.begin)
    models: list[list[str]] = [[] for _ in groups.begin]
    for pair in np.unique(places * len(texts) + encoded.indices.to_numpy()).tolist():
        place, code = divmod(pair, len(texts))
        if texts[code]:
            models[place].append(texts[code])
    return [sorted(found) or None for found in models]


def _texts_of_traces(rows: pa.Table, name: str, groups: _Groups, root_rows: Integers) -> Iterator[str | None]:
    """Return the text of each root, else that of the earliest span of the trace that has one."""
    texts = rows.column(name)
    have_text = pc.binary_length(texts).to_numpy() > 0
    chosen = np.where(have_text[root_rows], root_rows, groups.first_of(have_text))
    return (text.decode() or None for text in texts.take(pa.array(chosen)).to_pylist())


def _total(usage: Usage) -> int | float | None:
    """Return the total as the root of a whole trace shows it (``write_sums`` in ``spans/usage.py``)."""
    return json_number(usage[2]) if usage[2] and all(map(math.isfinite, usage)) else None


def _present(summary: dict[str, Any]) -> bytes:
    return orjson.dumps({name: value for name, value in summary.items() if value is not None})
