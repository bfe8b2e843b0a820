"""The hint of an explained query, and the plan of the engine that it is read from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from query_api.explain.hint import PRIMARY_KEY, IndexUse, TableRead, hint, static_hint, table_reads
from query_api.filter.language import EVERYTHING, Condition, Group, GroupOperator, Node, Operator

IS_A = Condition("attributes", Operator.IS, "a", ("a",))
UNINDEXED = Condition("status_message", Operator.IS, "a")
FIELDS_WITH_AN_INDEX_OF_VALUES = (
    "trace_id",
    "span_id",
    "parent_id",
    "span_name",
    "session_id",
    "user_id",
    "agent_id",
)


def _read(after_key: int, *, index: int | None = None, name: str = "leaf_pairs_index") -> TableRead:
    uses = [IndexUse(PRIMARY_KEY, "sparse", "", 2_441, after_key)]
    if index is not None:
        uses.append(IndexUse(name, "text", "", after_key, index))
    return TableRead("spans", 1, after_key if index is None else index, tuple(uses))


def _hint(read: TableRead, filtering: Node = EVERYTHING, granules_read: int | None = None) -> str:
    return hint([read], filtering, granules_read=granules_read)


def test_hint_names_the_field_of_an_index() -> None:
    assert _hint(_read(2_441, index=3), IS_A) == "The index on attributes left 3 of 2,441 granules."
    assert "on content left" in _hint(_read(2_441, index=3, name="words_index"), IS_A)
    assert "on references left" in _hint(_read(2_441, index=3, name="references_index"), IS_A)


def test_hint_names_two_indexes_in_the_order_of_their_use() -> None:
    uses = [IndexUse(PRIMARY_KEY, "sparse", "", 90, 90)]
    uses += [IndexUse("name_index", "text", "", 90, 9), IndexUse("words_index", "text", "", 9, 1)]

    assert hint([TableRead("spans", 1, 1, tuple(uses))], IS_A, granules_read=None) == (
        "The index on span_name left 9 of 90 granules. The index on content left 1 of 9 granules."
    )


def test_only_the_service_name_of_a_resource_has_an_index() -> None:
    service, other = (
        Condition("resource", Operator.IS, "a", ("attributes", name, "name")) for name in ("service", "host")
    )

    used = _hint(_read(2_441, index=3, name="service_name_index"), service)
    assert used == "The index on `service.name` of the resource left 3 of 2,441 granules."
    assert _hint(_read(9), other).endswith("No index holds resource.")
    assert _hint(_read(9), replace(service, operator=Operator.CONTAINS)).endswith(
        "The index on `service.name` of the resource is for equality (`is`, `in`), not for `contains`."
    )


@pytest.mark.parametrize("field", FIELDS_WITH_AN_INDEX_OF_VALUES)
def test_every_index_is_on_a_field(field: str) -> None:
    said = _hint(_read(9), Condition(field, Operator.CONTAINS, "a"))

    assert said.endswith(f"The index on {field} is for equality (`is`, `in`), not for `contains`.")
    assert "is for equality" not in _hint(_read(9), Condition(field, Operator.IN, ("a",)))


def test_fields_and_operators_are_named_alphabetically() -> None:
    asked = (
        Condition("user_id", Operator.CONTAINS, "a"),
        Condition("span_name", Operator.STARTSWITH, "a"),
        Condition("span_name", Operator.ENDSWITH, "a"),
        Condition("span_name", Operator.LIKE, "a"),
        *(Condition(field, Operator.IS, "a") for field in ("status_message", "span_type", "span_kind")),
    )

    assert _hint(_read(9), Group(GroupOperator.AND, asked)).endswith(
        "The index on span_name is for equality (`is`, `in`), not for `endswith`, `like`, `startswith`."
        " The index on user_id is for equality (`is`, `in`), not for `contains`."
        " No index holds span_kind, span_type, status_message."
    )


def test_time_slices_of_a_scan_are_counted_together() -> None:
    reads = [_read(10, index=1), _read(20, index=2)]

    assert hint(reads, IS_A, granules_read=None) == "The index on attributes left 3 of 30 granules."


def test_hint_says_that_an_index_excluded_nothing() -> None:
    assert _hint(_read(9, index=9), IS_A, 9).endswith("according to the index, every granule may hold a match.")


@pytest.mark.parametrize("granules_read", [9, None])
def test_hint_says_what_would_help_if_the_whole_window_was_read(granules_read: int | None) -> None:
    said = _hint(_read(9), UNINDEXED, granules_read)

    assert said.startswith("Every span of the window was read: no condition could use an index.")
    assert "`oldest`" in said
    assert said.endswith("No index holds status_message.")


def test_references_have_an_index() -> None:
    said = _hint(_read(9), Condition("references", Operator.IN, ({"slug": "a"},)), 9)

    assert "No index holds" not in said


def test_a_condition_on_time_is_not_called_useless() -> None:
    said = _hint(_read(9), Condition("start_time", Operator.GT, 1))

    assert said == "Every span of the window was read: the conditions on `start_time` only narrowed the window."


def test_a_condition_on_time_is_named_only_if_it_is_the_only_one() -> None:
    asked = Group(GroupOperator.AND, (Condition("start_time", Operator.GT, 1), UNINDEXED))

    assert "no condition could use an index" in _hint(_read(9), asked)
    assert _hint(_read(9)) == "Every span of the window was read: there is no condition."


def test_hint_says_that_the_page_was_full_before_the_end() -> None:
    assert "until the page was full: 2 of 9 granules." in _hint(_read(9), UNINDEXED, 2)
    assert "until the page was full: 2,440 of 2,441 granules." in _hint(_read(2_441), UNINDEXED, 2_440)


def test_hint_says_that_the_window_is_empty() -> None:
    assert hint([], EVERYTHING, granules_read=0) == "Nothing was read: there are no spans in the window."


@pytest.mark.parametrize("operator", [GroupOperator.NOT, GroupOperator.NAND, GroupOperator.NOR])
def test_negations_cannot_use_an_index_however_deep(operator: GroupOperator) -> None:
    filtering = Group(operator, (Group(GroupOperator.AND, (IS_A,)),))

    assert "`not` (and" in _hint(_read(9), filtering)
    assert "`not` (and" not in _hint(_read(9), Group(GroupOperator.OR, (IS_A,)))


def test_on_attributes_the_operators_without_an_index_are_named() -> None:
    asked = Group(GroupOperator.AND, (Condition("attributes", Operator.CONTAINS, "a"), IS_A))

    said = _hint(_read(9), asked)
    assert (
        "equality (`is`, `in`), and for `contains` at most the existing paths; `content` finds whole words by index."
        in said
    )


def test_hint_names_operators_that_the_index_on_a_name_does_not_serve() -> None:
    asked = Condition("span_name", Operator.CONTAINS, "a")

    assert _hint(_read(9), asked).endswith("The index on span_name is for equality (`is`, `in`), not for `contains`.")
    assert "span_name" not in _hint(_read(9, index=3, name="name_index"), Condition("span_name", Operator.IS, "a"))[30:]


IS_NAMED = Condition("span_name", Operator.IS, "a")
GREATER = Condition("attributes", Operator.GT, 1, ("a",))


@pytest.mark.parametrize(
    ("node", "usable"),
    [
        (IS_A, ["attributes"]),
        (GREATER, ["the paths of attributes"]),
        (Condition("attributes", Operator.IS, 0.123456, ("a",)), ["the paths of attributes"]),
        (Condition("attributes", Operator.IS, "-" * 20, ("a",)), ["the paths of attributes"]),
        (Condition("attributes", Operator.IS, "a long text with words", ("a",)), ["attributes"]),
        (Condition("attributes", Operator.IN, ["one", "two"], ("a",)), ["attributes"]),
        (Condition("attributes", Operator.IN, ["one", 2], ("a",)), []),
        (Condition("attributes", Operator.IS, {"b": {"c": 1}}, ("a",)), ["attributes"]),
        (Condition("attributes", Operator.IS, {"b": [1]}, ("a",)), []),
        (Condition("attributes", Operator.EXISTS, path=("a",)), []),
        (Condition("model", Operator.IS, "a"), ["attributes"]),
        (Condition("tokens", Operator.GT, 5), ["the paths of attributes"]),
        (Condition("service", Operator.IS, "a"), ["`service.name` of the resource"]),
        (Condition("duration", Operator.GT, 5), []),
        (UNINDEXED, []),
        (Group(GroupOperator.AND, (IS_A, UNINDEXED, IS_NAMED)), ["attributes", "span_name"]),
        (Group(GroupOperator.OR, (IS_A, IS_NAMED)), ["attributes", "span_name"]),
        (Group(GroupOperator.OR, (IS_A, UNINDEXED)), []),
        (Group(GroupOperator.NOT, (IS_A,)), []),
        (EVERYTHING, []),
    ],
)
def test_static_hint_names_usable_indexes(node: Node, usable: list[str]) -> None:
    said = static_hint(node) or ""

    known = ("attributes", "span_name", "the paths of attributes", "`service.name` of the resource")
    assert [field for field in known if f"on {field} can" in said] == usable


def test_hint_says_that_no_index_holds_the_duration() -> None:
    assert static_hint(Condition("duration", Operator.GT, 5)) == "No index holds duration."


def _index(kind: str, before: int, after: int, **more: Any) -> dict[str, Any]:
    counts = {"Initial Parts": 9, "Selected Parts": 2, "Initial Granules": before, "Selected Granules": after}
    return {"Type": kind, "Condition": "c", **counts, **more}


def _plan(*indexes: dict[str, Any]) -> bytes:
    read = {"Node Type": "ReadFromMergeTree", "Description": "database.spans", "Indexes": list(indexes)}
    return orjson.dumps([{"Plan": {"Node Type": "Limit", "Plans": [{"Node Type": "Sorting", "Plans": [read]}]}}])


def test_granules_are_counted_from_the_primary_key_on() -> None:
    plan = _plan(
        _index("Min-Max", 9_000, 8_000),
        _index("Partition", 8_000, 7_000),
        _index("PrimaryKey", 7_000, 30),
        _index("Skip", 30, 4, Name="words_index", Description="text GRANULARITY 100000000"),
    )

    assert table_reads(plan, of_project={"spans": 50}) == [
        TableRead(
            "spans",
            parts=2,
            granules=4,
            indexes=(
                IndexUse("primary key", "sparse", "c", 50, 30),
                IndexUse("words_index", "text", "c", 30, 4),
            ),
        )
    ]


def test_index_without_description_is_named_by_its_type() -> None:
    key, skip = _index("PrimaryKey", 9, 4), _index("Skip", 4, 3)
    del key["Condition"], skip["Condition"]

    [read] = table_reads(_plan(key, skip), of_project={})

    assert read.indexes == (IndexUse("primary key", "sparse", "", 4, 4), IndexUse("Skip", "Skip", "", 4, 3))


def test_remaining_granules_are_those_of_the_last_index() -> None:
    skip = _index("Skip", 30, 4, Name="words_index", Description="text")

    [read] = table_reads(_plan(_index("PrimaryKey", 90, 30), {**skip, "Selected Parts": 1}), of_project={})

    assert (read.parts, read.granules) == (1, 4)


def test_without_a_primary_key_no_granules_are_returned() -> None:
    assert table_reads(_plan(_index("MinMax", 9, 8)), of_project={}) == [TableRead("spans", 0, 0, ())]


def test_tables_of_a_join_are_in_its_order() -> None:
    reads = [orjson.loads(_plan(_index("PrimaryKey", 9, 4)))[0]["Plan"]["Plans"][0]["Plans"][0] for _ in range(2)]
    reads[1]["Description"] = "more.of.span_versions"
    plan = orjson.dumps([{"Plan": {"Node Type": "Join", "Plans": reads}}])

    assert [read.table for read in table_reads(plan, of_project={})] == ["spans", "span_versions"]


def test_counts_leave_out_other_projects() -> None:
    plan = _plan(_index("Min-Max", 9_001, 8_001), _index("Partition", 8_001, 7_001), _index("PrimaryKey", 7_001, 1))

    shown = repr(table_reads(plan, of_project={}))

    assert not any(count in shown for count in ("9001", "8001", "7001"))


def test_spans_that_arrive_while_explaining_do_not_break_counts() -> None:
    [read] = table_reads(_plan(_index("PrimaryKey", 9, 6)), of_project={"spans": 5})

    assert (read.indexes[0].granules_before, read.indexes[0].granules_after) == (6, 6)


def test_a_plan_that_reads_no_table_reads_nothing() -> None:
    plan = orjson.dumps([{"Plan": {"Node Type": "Expression", "Plans": [{"Node Type": "ReadNothing"}]}}])

    assert table_reads(plan, of_project={}) == []


def test_a_condition_on_an_id_may_hold_any_bytes() -> None:
    plan = _plan(_index("PrimaryKey", 2, 1, Condition="(trace_id in ['ID'])")).replace(b"ID", b"\xa7\xff")

    [read] = table_reads(plan, of_project={"spans": 2})

    assert [index.granules_after for index in read.indexes] == [1]


def test_project_without_rows_has_no_granules() -> None:
    plan = _plan(_index("PrimaryKey", 90, 1), _index("Skip", 1, 1, Name="words_index", Description="text"))

    assert table_reads(plan, of_project={"spans": 0}) == [TableRead("spans", 0, 0, ())]
