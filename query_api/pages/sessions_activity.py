"""Pages of ids: the sessions or users of the spans that are shown, by their activity (reference §10.3).

The activity of an id is the start of its earliest span in the window, or of its latest (``realtime``). An id with spans that were
stored when the walk began has its place by these (``spans/snapshot.py``), so it stands on one page, whatever came since.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from query_api.filter.sql.compile import Compiled
from query_api.pages.sessions_position import ID_BYTES_MAX, IdPosition
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.snapshot import Snapshot
from query_api.spans.visible_spans import visible_spans
from query_api.spans.windowing import SAMPLED, Order

ID_OF: Final = {
    name: f"if(ifNull({name}_id, '') != '', assumeNotNull({name}_id), {name}_in_attributes)"
    for name in ("session", "user")
}
"""An id is text, ``''`` where there is none. Roots have that of their attributes in a column; other spans may have one there
too, or in their attributes, where normalisation keeps texts alone."""


@dataclass(frozen=True, slots=True)
class Walk:
    """Which ids, in which order, and behind which of them. Bounds are microseconds; reference §6.2 says which are inside."""

    kind: str
    is_realtime: bool
    order: Order
    newest_us: int | None
    oldest_us: int | None
    rate_percent: int = 100
    after: IdPosition | None = None
    snapshot: Snapshot = field(default_factory=Snapshot)


class ActiveId(NamedTuple):
    """An id and its place."""

    text: str
    activity_us: int
    beginning: bytes
    tail: bytes


async def find_ids(spans: ProjectSpans, matching: Compiled, walk: Walk, *, limit: int) -> list[ActiveId]:
    """The first ``limit`` ids behind the position of the walk, in its order."""
    sql, parameters = _statement(matching, walk)
    rows = await spans.select(sql, {**parameters, "ids": limit}, step="ids by activity")
    return [ActiveId(row["id"].decode(), row["activity_us"], row["beginning"], row["tail"]) for row in rows.to_pylist()]


def _statement(matching: Compiled, walk: Walk) -> tuple[str, dict[str, Any]]:
    conditions, parameters = _conditions(matching, walk)
    id_of = ID_OF[walk.kind]
    with_id = visible_spans({"id": id_of}, conditions, and_also=[f"{id_of} != ''"])
    held, held_values = walk.snapshot.held_place_sql()
    parameters |= held_values
    outermost = "max" if walk.is_realtime else "min"
    direction, sign = ("DESC", "<") if walk.order is Order.DESCENDING else ("ASC", ">")
    after = ""
    if walk.after is not None:
        after = (
            f"HAVING (activity_us, beginning, tail) {sign} ({{after_us:Int64}}, unhex({{after_beginning:String}}),"
            " toFixedString(unhex({after_tail:String}), 16))\n"
        )
        parameters |= {
            "after_us": walk.after.activity_us,
            "after_beginning": walk.after.beginning.hex(),
            "after_tail": walk.after.tail.hex(),
        }
    sql = (
        f"SELECT id, if(countIf({held}) > 0, {outermost}If(start_us, {held}), {outermost}(start_us)) AS activity_us,"
        f" substring(id, 1, {ID_BYTES_MAX}) AS beginning, sipHash128(substring(id, {ID_BYTES_MAX} + 1)) AS tail\n"
        f"FROM (\n{with_id})\nGROUP BY id\n{after}"
        f"ORDER BY activity_us {direction}, beginning {direction}, tail {direction}\nLIMIT {{ids:UInt32}}\n"
    )
    return sql, parameters


def _conditions(matching: Compiled, walk: Walk) -> tuple[list[str], dict[str, Any]]:
    is_descending = walk.order is Order.DESCENDING
    conditions = [matching.sql]
    parameters = dict(matching.parameters)
    if walk.newest_us is not None:
        conditions.append(f"start_us {'<' if is_descending else '<='} {{newest_us:Int64}}")
        parameters["newest_us"] = walk.newest_us
    if walk.oldest_us is not None:
        conditions.append(f"start_us {'>=' if is_descending else '>'} {{oldest_us:Int64}}")
        parameters["oldest_us"] = walk.oldest_us
    if walk.rate_percent < 100:
        conditions.append(SAMPLED)
        parameters["rate_percent"] = walk.rate_percent
    return conditions, parameters
