"""Scores of ``span_json``, in the shape in which responses have them (contract §3.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from common.codec.checks import invalid_type, unknown_enum
from common.codec.json_members import object_of, text_of
from common.errors import Rejected, RejectionCode
from common.ids import parse_span_id, parse_trace_id
from common.json_values import UINT64_MAX
from common.judgement import (
    LABEL_ALLOWED,
    NAME_ALLOWED,
    VALUE_ALLOWED,
    is_score_label,
    is_score_name,
    is_score_value,
    judgement_of,
)
from common.score import EVENT_SOURCE, SOURCE_KINDS, Score, ScoreSource
from common.times import parse_time_ns


def read_score(sent: Mapping[str, Any], where: str, default_ns: int) -> Score:
    """Read a score whose members are JSON-ready; one without a time has ``default_ns``. Raises ``Rejected`` with the
    path of the member.
    """
    get = sent.get
    name, value, label = get("name"), get("value"), get("label")
    if not is_score_name(name):
        raise invalid_type(f"{where}.name", name, NAME_ALLOWED)
    if value is not None and not is_score_value(value):
        if isinstance(value, str):
            raise Rejected(RejectionCode.INVALID_TYPE, f"{where}.value is {value}; it must be {VALUE_ALLOWED}.")
        raise invalid_type(f"{where}.value", value, VALUE_ALLOWED)
    if not is_score_label(label):
        raise invalid_type(f"{where}.label", label, LABEL_ALLOWED)
    judgement = judgement_of(value, label)
    if judgement is None:
        raise Rejected(
            RejectionCode.INVALID_TYPE, f"{where} has no value and no label; a score must have at least one of them."
        )
    explanation = text_of(get("explanation"), f"{where}.explanation") or None
    at_ns = _time_ns(get("at"), f"{where}.at", default_ns) // 1_000 * 1_000
    return Score(name, *judgement, explanation, _source(get("source"), f"{where}.source"), at_ns)


def _source(sent: Any, where: str) -> ScoreSource:
    if sent is None:
        return EVENT_SOURCE
    get = object_of(sent, where).get
    kind = EVENT_SOURCE.kind if get("kind") is None else get("kind")
    if kind not in SOURCE_KINDS:
        raise unknown_enum(f"{where}.kind", kind, " or ".join(SOURCE_KINDS))
    return ScoreSource(
        kind=kind,
        trace_id=_id(get("trace_id"), f"{where}.trace_id", parse_trace_id, RejectionCode.INVALID_TRACE_ID),
        span_id=_id(get("span_id"), f"{where}.span_id", parse_span_id, RejectionCode.INVALID_SPAN_ID),
        evaluator=text_of(get("evaluator"), f"{where}.evaluator") or None,
    )


def _id(sent: Any, where: str, parse: Callable[[str], bytes], code: RejectionCode) -> bytes | None:
    if sent is None:
        return None
    if type(sent) is not str:
        raise Rejected(code, str(invalid_type(where, sent, "hexadecimal digits as text")))
    try:
        return parse(sent)
    except ValueError as exc:
        raise Rejected(code, f"{where}: {exc}") from exc


def _time_ns(sent: Any, where: str, default_ns: int) -> int:
    if sent is None:
        return default_ns
    if type(sent) not in (str, int, float):
        raise invalid_type(where, sent, "a time as text or number")
    try:
        time_ns = parse_time_ns(sent)
    except ValueError as exc:
        raise Rejected(RejectionCode.INVALID_TYPE, f"{where}: {exc}") from exc
    if not 0 <= time_ns <= UINT64_MAX:
        raise Rejected(RejectionCode.ABSURD_TIME, f"{where} is {time_ns} ns; allowed: 1970 to 2554, as for events.")
    return time_ns
