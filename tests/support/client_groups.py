"""What a client makes of all spans of ``/spans/query``: the groups, sums and percentiles that ``/spans/groups/query``
must return, in plain Python over whole lists (contract §3.5, ADR 0010)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import numpy as np

from common.json_values import is_number, number_text
from common.paths import value_at
from common.times import format_us, parse_time_ns
from query_api.filter.matches import shorthand_value

Shown: TypeAlias = dict[str, Any]
Amounts: TypeAlias = tuple[float, float, float]

PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
SHORTHANDS: Final = ("duration", "service", "model", "provider", "session", "user", "tokens", "cost")
TIMES: Final = ("start_time", "end_time")
_UNITS: Final = {"tokens": "tokens", "cost": "costs"}
_AMOUNTS: Final = ("prompt", "completion", "total")


class ClientGroups:
    """Groups over all spans that ``/spans/query`` returned; which reports count is decided over whole traces."""

    def __init__(self, spans: Sequence[Shown]) -> None:
        self._used: dict[str, dict[tuple[str, str], float]] = {}
        traces = defaultdict(list)
        for span in spans:
            traces[span["trace_id"]].append(span)
        for unit in _UNITS:
            self._used[unit] = {
                (trace_id, span_id): amount
                for trace_id, of_trace in traces.items()
                for span_id, amount in counted_totals(of_trace, _UNITS[unit]).items()
            }

    def response(self, spans: Sequence[Shown], request: Shown) -> Shown:
        """Return ``groups``, ``totals`` and ``others`` of a request over the spans that match it."""
        by_group: dict[tuple[Any, ...], list[Shown]] = defaultdict(list)
        for span in spans:
            by_group[tuple(map(typed, self._by(span, request).values()))].append(span)
        order = request.get("order_by", {"of": "count"})
        sign = 1 if order.get("order") == "ascending" else -1

        def place(key: tuple[str, ...]) -> tuple[Any, ...]:
            value = self._statistic(by_group[key], order["of"], order.get("as"))
            return (value is None, 0 if value is None else sign * round(value, 9), key)

        ordered = sorted(by_group, key=place)
        limit = request.get("limit", 100)
        groups = [group for key in ordered[:limit] for group in self._group(by_group[key], request)]
        left_out = [span for key in ordered[limit:] for span in by_group[key]]
        response: Shown = {"count": len(groups), "groups": groups, "complete": True}
        if request.get("totals"):
            shown = [by_group[key] for key in ordered[:limit]]
            response["totals"] = [
                {"by": self._by(spans[0], request), "values": self._values(spans, request)} for spans in shown
            ]
        if not left_out:
            return response
        others: Shown = {"groups_count": len(ordered) - limit, "values": self._values(left_out, request)}
        if "interval" in request:
            others["series"] = [
                {"values": self._values(part, request), "at": at} for at, part in buckets(left_out, request["interval"])
            ]
        return {**response, "others": others}

    def _group(self, spans: Sequence[Shown], request: Shown) -> list[Shown]:
        by = self._by(spans[0], request)
        if "interval" not in request:
            return [{"by": by, "values": self._values(spans, request)}]
        return [
            {"by": by, "values": self._values(part, request), "at": at}
            for at, part in buckets(spans, request["interval"])
        ]

    def _by(self, span: Shown, request: Shown) -> Shown:
        return {name_of(of): scalar(value_in(span, of)) for of in request.get("group_by", [])}

    def _values(self, spans: Sequence[Shown], request: Shown) -> Shown:
        values: Shown = {}
        for measure in request.get("measures", [{"of": "count"}]):
            of = measure["of"]
            if of in ("count", "errors"):
                values[of] = self._statistic(spans, of, None)
                continue
            found = {each: self._statistic(spans, of, each) for each in measure["as"]}
            if of in TIMES:
                found = {each: found[each] if each == "uniq" else format_us(found[each]) for each in found}
            values[name_of(of)] = {each: value for each, value in found.items() if value is not None}
        return values

    def _statistic(self, spans: Sequence[Shown], of: Any, statistic: str | None) -> Any:
        if of == "count":
            return len(spans)
        if of == "errors":
            return sum(span["status_code"] == "STATUS_CODE_ERROR" for span in spans)
        if statistic == "uniq" and of not in tuple(_UNITS):
            return len({typed(scalar(value_in(span, of))) for span in spans} - {""})
        numbers = [number for span in spans if (number := self._number(span, of)) is not None]
        match statistic:
            case "uniq":
                return len(set(numbers))
            case _ if not numbers:
                return None
            case "sum":
                return math.fsum(numbers)
            case "avg":
                return math.fsum(numbers) / len(numbers)
            case "min" | "max":
                return min(numbers) if statistic == "min" else max(numbers)
            case _:
                return float(np.quantile(numbers, PERCENTILES[str(statistic)]))

    def _number(self, span: Shown, of: Any) -> float | None:
        if of in tuple(_UNITS):
            return self._used[of].get((span["trace_id"], span["span_id"])) or None
        if of in TIMES:
            return parse_time_ns(span[of]) // 1000
        value = value_in(span, of)
        if isinstance(value, str):
            try:
                return float(value) if value.strip() == value else None
            except ValueError:
                return None
        return float(value) if is_number(value) else None


def name_of(of: Any) -> str:
    return of if isinstance(of, str) else of.get("key", of["field"])


def value_in(span: Shown, of: Any) -> Any:
    """The value of a field name, of ``{field, key}`` or, if it is no field, of an attribute."""
    if isinstance(of, dict):
        owner = span.get(of["field"])
        if of["field"] != "attributes" and owner is not None:
            owner = owner.get("attributes")
        return value_at(owner, of["key"].split("."))
    if of in SHORTHANDS:
        return shorthand_value(of, span)
    return span.get(of) if "." not in of else value_at(span["attributes"], of.split("."))


def scalar(value: Any) -> Any:
    return None if isinstance(value, dict | list) else value


def typed(value: Any) -> str:
    """A text that two values share exactly if they are equal, and that has the order of groups."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"b{value:d}"
    return f"n{number_text(value)}" if is_number(value) else f"s{value}"


def buckets(spans: Sequence[Shown], interval: str) -> list[tuple[str, list[Shown]]]:
    """The spans by the bucket of their start, earliest first."""
    length_s = int(interval[:-1]) * {"m": 60, "h": 3_600, "d": 86_400}[interval[-1]]
    found: dict[int, list[Shown]] = defaultdict(list)
    for span in spans:
        found[int(datetime.fromisoformat(span["start_time"]).astimezone(UTC).timestamp()) // length_s].append(span)
    return [(format_us(number * length_s * 1_000_000), found[number]) for number in sorted(found)]


def counted_totals(trace: Sequence[Shown], unit: str) -> dict[str, float]:
    """What counts of the total of each span of a trace: nothing of what spans below report again (ADR 0010)."""
    reports: dict[str, Amounts] = {}
    for span in trace:
        ag = span["attributes"]["ag"]
        amounts = ag["metrics"][unit].get("incremental", {})
        if "counted_in" not in ag.get("meta", {}) and any(amounts.values()):
            prompt, completion, total = (amounts.get(name, 0) for name in _AMOUNTS)
            reports[span["span_id"]] = (prompt, completion, total)
    parents = {span["span_id"]: span.get("parent_id") for span in trace}
    own = {span["span_id"] for span in trace if "gen_ai" not in span["attributes"]}
    with_prompt = {each for each, (prompt, _, total) in reports.items() if prompt or _is_more(reports[each])}
    with_completion = {each for each, (_, completion, _t) in reports.items() if completion or _is_more(reports[each])}
    counting, prompts, completions = (
        _innermost(members, parents) | (own & members) for members in (set(reports), with_prompt, with_completion)
    )
    return {
        each: total if each in counting else prompt * (each in prompts) + completion * (each in completions)
        for each, (prompt, completion, total) in reports.items()
    }


def _is_more(amounts: Amounts) -> bool:
    prompt, completion, total = amounts
    return total > (prompt + completion) * 1.000000001


def _innermost(members: Collection[str], parents: Mapping[str, str | None]) -> set[str]:
    """The members with no other member below them; all of them if there are none such."""
    above: set[str] = set()
    for member in members:
        seen: set[str] = set()
        at = parents.get(member)
        while at is not None and at in parents and at not in seen:
            seen.add(at)
            if at in members:
                if at != member:
                    above.add(at)
                break
            at = parents.get(at)
    return set(members) - above or set(members)
