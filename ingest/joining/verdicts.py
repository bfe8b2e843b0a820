"""What annotations say about the spans that they link to, and which spans are responses: read from rows of ``spans``.

An annotation is a span with links. Each scalar in its outputs is a score of every span that it links to (contract §3.6,
ADR 0050): all of them together are its verdict. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from common.arrow_views import offsets_of
from common.clickhouse.member_json import scores_json
from common.ids import parse_span_id, parse_trace_id
from common.judgement import is_score_name, judgement_of
from common.limits import KIB
from common.score import Score, ScoreSource
from common.telemetry import SCORES_NOT_JOINED, get_logger
from ingest.joining.span_name import SpanName

_log = get_logger(__name__)

LINKS_MAX: Final = 20
"""How many of its links make an annotation judge a span."""

OUTPUTS_MAX: Final = 100
"""How many of its outputs are scores: the first ones."""

LABEL_LENGTH_MAX: Final = 1_000
"""The longest text, in characters, that is a label. A longer one is no score: it stays an output of the annotation."""

VERDICT_BYTES_MAX: Final = 4 * KIB
"""Of the scores of one annotation together; a row with all of them is stored for each link."""

RESPONSE_PATH: Final = "ag.meta.response.id"

_READ_LEAF: Final[Mapping[str, Callable[[str], Any]]] = {"s": str, "n": orjson.loads, "b": "1".__eq__}
"""How the texts of leaves are read, by their first letter."""

_OUTPUTS: Final = "ag.data.outputs"
_EVALUATOR: Final = "evaluator"
_READ: Final = (
    *("project_id", "trace_id", "span_id", "partition_id", "version", "span_index", "record_ms"),
    *("end_us", "links", "references"),
)


class RowPlace(NamedTuple):
    """Where a row came: the columns of its table, in a batch."""

    partition_id: bytes
    version: int
    span_index: int
    record_ms: int


class Verdict(NamedTuple):
    """What one version of an annotation says about the spans that it links to.

    ``scores`` is JSON text as responses show it, empty if it has none.
    """

    annotation: SpanName
    place: RowPlace
    judged: Sequence[SpanName]
    at_us: int
    scores: bytes


def annotations_in(rows: pa.Table) -> pa.Table:
    """Return the rows that have links, even an empty list: earlier versions may have judged spans."""
    read = rows.select((*_READ, "leaves"))
    return read.filter(pc.greater(pc.binary_length(read.column("links")), 0)).combine_chunks()


def verdicts_of(annotations: pa.Table) -> Iterator[Verdict]:
    """Return the verdicts of those of these rows that judge spans now."""
    if not annotations.num_rows:
        return
    outputs = _outputs_of(annotations)
    rows = annotations.take(pa.array(outputs, pa.int64()))
    for own_outputs, (project, trace_id, span_id, *place, end_us, links, references) in zip(
        outputs.values(), zip(*(rows.column(name).to_pylist() for name in _READ), strict=True), strict=True
    ):
        annotation = SpanName(UUID(bytes=project), trace_id, span_id).shown
        try:
            source = ScoreSource("annotation", trace_id, span_id, _evaluator_of(references))
            judged = _judged(annotation.project_id, orjson.loads(links))
            scores = _scores_json(own_outputs, source, end_us * 1_000) if judged else b""
        except MemoryError:
            raise
        except Exception as exc:  # noqa: BLE001 - a defect of ours costs the scores of one annotation
            SCORES_NOT_JOINED.inc()
            _log.error("An annotation cannot be read.", project_id=str(annotation.project_id), error=repr(exc))
            continue
        if scores:
            yield Verdict(annotation, RowPlace(*place), judged, end_us, scores)


def response_ids_of(rows: pa.Table) -> Mapping[SpanName, str]:
    """Return the ids of the responses that rows are about."""
    if not rows.num_rows:
        return {}
    leaves = _leaves_of(rows)
    keys = leaves.keys
    places = np.flatnonzero(pc.equal(keys, RESPONSE_PATH).to_numpy(zero_copy_only=False))
    if not len(places):
        return {}
    owners = _rows_of(places, leaves)
    texts = leaves.items.take(pa.array(places)).to_pylist()
    named = rows.take(pa.array(owners)).select(("project_id", "trace_id", "span_id"))
    names = zip(*(column.to_pylist() for column in named.columns), strict=True)
    return {
        SpanName(UUID(bytes=project), trace_id, span_id).shown: text[1:]
        for (project, trace_id, span_id), text in zip(names, texts, strict=True)
    }


def _leaves_of(rows: pa.Table) -> pa.MapArray:
    column = rows.column("leaves")
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _rows_of(places: np.ndarray[Any, Any], leaves: pa.MapArray) -> np.ndarray[Any, Any]:
    """Return the row of each of these leaves."""
    offsets = offsets_of(leaves)
    rows: np.ndarray[Any, Any] = np.searchsorted(offsets, places + offsets[0], side="right") - 1
    return rows


def _outputs_of(rows: pa.Table) -> Mapping[int, list[tuple[str, str]]]:
    """Return the names and typed texts of the scalars in the outputs of each row (``common/clickhouse/leaves.py``)."""
    leaves = _leaves_of(rows)
    places = np.flatnonzero(pc.starts_with(leaves.keys, _OUTPUTS).to_numpy(zero_copy_only=False))
    indexes = pa.array(places)
    outputs: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for row, path, text in zip(
        _rows_of(places, leaves).tolist(),
        leaves.keys.take(indexes).to_pylist(),
        leaves.items.take(indexes).to_pylist(),
        strict=True,
    ):
        if path == _OUTPUTS:
            outputs[row].append(("outputs", text))
        elif path.startswith(_OUTPUTS + "."):
            outputs[row].append((path.removeprefix(_OUTPUTS + ".").rstrip("\0"), text))
    return outputs


def _judged(project_id: UUID, links: Sequence[Mapping[str, Any]]) -> tuple[SpanName, ...]:
    """Return the spans that links name, each once. OpenTelemetry allows links without ids, which name none."""
    names = (
        SpanName(project_id, parse_trace_id(link["trace_id"]), parse_span_id(link["span_id"]))
        for link in links
        if link["trace_id"].strip("0") and link["span_id"].strip("0")
    )
    return tuple(islice(dict.fromkeys(names), LINKS_MAX))


def _scores_json(outputs: Sequence[tuple[str, str]], source: ScoreSource, at_ns: int) -> bytes:
    scores: list[Score] = []
    bytes_count = 0
    for name, text in outputs[:OUTPUTS_MAX]:
        score = _score(name, text, source, at_ns)
        if score is not None and (bytes_count := bytes_count + len(scores_json([score]))) <= VERDICT_BYTES_MAX:
            scores.append(score)
    return scores_json(scores)


def _score(name: str, text: str, source: ScoreSource, at_ns: int) -> Score | None:
    """Return the score that an output is; ``None`` if it is empty or too long."""
    kind, content = text[:1], text[1:]
    if not is_score_name(name) or kind not in _READ_LEAF or (kind == "s" and len(content) > LABEL_LENGTH_MAX):
        return None
    judgement = judgement_of(_READ_LEAF[kind](content), None)
    return None if judgement is None else Score(name, *judgement, None, source, at_ns)


def _evaluator_of(references: bytes) -> str | None:
    """Return the slug of the evaluator among the references of an annotation, else its id."""
    for reference in orjson.loads(references) if references else ():
        if reference.get("attributes", {}).get("key") == _EVALUATOR:
            evaluator: str | None = reference.get("slug") or reference.get("id")
            return evaluator
    return None
