"""What was asked in a trace, what was answered, and attributes: what tells traces in a list apart.

Two spans speak for a trace: its root, and where that has nothing, its last model call. The engine returns only short
texts of each; the conversations stay there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from common.clickhouse.leaves import EMPTY_ARRAY, EMPTY_OBJECT
from common.clickhouse.select import Select, Table
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.rows import SCATTERED
from query_api.spans.versions import (
    Integers,
    Version,
    among_ids,
    among_starts,
    packed_versions,
    values_of,
    versions_of,
)

TEXT_MAX: Final = 200
"""Characters of a text that a list shows; a longer one ends with ``…``."""

ATTRIBUTES_MAX: Final = 20
TRACES_MAX: Final = 1_000
"""Traces of a page with texts: each costs the rows of two spans, with all their attributes."""

MODEL_CALLS: Final = ("chat", "completion", "llm")
"""The types of spans that call a model."""

_READ_MAX: Final = 2 * TEXT_MAX
"""White space is folded after a text was cut."""

_ELLIPSIS: Final = "…"
_PATHS, _TEXTS = "mapKeys(leaves)", "mapValues(leaves)"
_IN_MESSAGE: Final = "[.](content|parts)([.][0-9]+([.](text|content))?)?$"
"""The path of a text of a message, after that of the message."""

_USER_ROLE: Final = (
    "arrayLast((path, text) -> text = 'suser' AND match(path, '^ag[.]data[.]inputs[.]messages[.][0-9]+[.]role$'),"
    f" {_PATHS}, {_TEXTS})"
)
"""The path of the role of the last message of a user, ``''`` if there is none."""

_OF_USER: Final = (
    f"if({_USER_ROLE} = '', '', arrayFirst((text, path) -> text LIKE 's_%'"
    f" AND startsWith(path, substring({_USER_ROLE}, 1, length({_USER_ROLE}) - length('.role')))"
    f" AND match(substring(path, length({_USER_ROLE}) - length('.role') + 1), '^{_IN_MESSAGE}'),"
    f" {_TEXTS}, {_PATHS}))"
)
_OF_ASSISTANT: Final = (
    "arrayLast((text, path) -> text LIKE 's_%'"
    f" AND match(path, '^ag[.]data[.]outputs[.]messages[.][0-9]+{_IN_MESSAGE}'), {_TEXTS}, {_PATHS})"
)


def _first_text(side: str) -> str:
    """The first text in the inputs or outputs that is no part of a conversation."""
    return (
        f"arrayFirst((text, path) -> text LIKE 's_%' AND match(path, '^ag[.]data[.]{side}([.]|$)')"
        f" AND NOT match(path, '^ag[.]data[.]{side}[.](messages|tools)[.]'), {_TEXTS}, {_PATHS})"
    )


def _short(expression: str) -> str:
    """The beginning of a typed text, with its letter."""
    return f"substringUTF8({expression}, 1, {_READ_MAX + 1})"


QUESTION: Final = _short(f"if({_OF_USER} != '', {_OF_USER}, {_first_text('inputs')})")
ANSWER: Final = _short(f"if({_OF_ASSISTANT} != '', {_OF_ASSISTANT}, {_first_text('outputs')})")
"""The last text of the outputs of a model; else the first text in the outputs."""

_OF_VERSIONS: Final = (f"start_us IN {among_starts('starts')}", f"span_id IN {among_ids('span_ids')}")


class TextMembers(NamedTuple):
    """Which members a list asks for."""

    texts: bool
    attributes: Sequence[str]
    """Paths."""

    def __bool__(self) -> bool:
        return self.texts or bool(self.attributes)


async def trace_texts(
    spans: ProjectSpans, rows: pa.Table, roots: Integers, ends: Integers, members: TextMembers
) -> list[dict[str, Any]]:
    """Return the members of each trace, without those that have no value.

    ``rows`` are by trace and start; ``roots`` are the indexes of the roots, ``ends`` the first row after each trace.
    """
    speakers = _speakers(rows, roots, ends)
    versions = versions_of(rows.take(pa.array([index for of_trace in speakers for index in of_trace])))
    read = await _read(spans, versions, members)
    members_of: list[dict[str, Any]] = []
    remaining = iter(versions)
    for of_trace in speakers:
        found = [read[version] for _, version in zip(of_trace, remaining, strict=False) if version in read]
        members_of.append(_members(found, members))
    return members_of


def _speakers(rows: pa.Table, roots: Integers, ends: Integers) -> list[tuple[int, ...]]:
    """Return the indexes of the root and of the last model call of each trace: once if they are one span."""
    are_calls = pc.is_in(rows.column("span_type"), value_set=pa.array([kind.encode() for kind in MODEL_CALLS]))
    calls = np.flatnonzero(are_calls.to_numpy(zero_copy_only=False))
    begins = np.concatenate(([0], ends[:-1]))
    places = np.searchsorted(calls, ends) - 1
    last = np.where(places >= 0, calls[np.maximum(places, 0)] if len(calls) else -1, -1)
    return [
        (root,) if call < begin or call == root else (root, call)
        for root, call, begin in zip(roots.tolist(), last.tolist(), begins.tolist(), strict=True)
    ]


async def _read(
    spans: ProjectSpans, versions: Collection[Version], members: TextMembers
) -> Mapping[Version, Sequence[str]]:
    """Return the typed texts of the rows of versions: question and answer, then attributes."""
    columns = [*Version._fields, *_text_columns(members)]
    parameters: dict[str, Any] = {f"attribute_{place}": path for place, path in enumerate(members.attributes)}
    query = Select(
        spans.project_id,
        Table.SPANS,
        columns,
        prewhere=_OF_VERSIONS,
        parameters={**packed_versions(versions), **parameters},
    )
    rows = await spans.select(query, step="texts", settings=SCATTERED)
    texts = [values_of(rows, name) for name in rows.column_names[len(Version._fields) :]]
    decoded = ([text.decode() for text in of_row] for of_row in zip(*texts, strict=True))
    return dict(zip(versions_of(rows), decoded, strict=True))


def _text_columns(members: TextMembers) -> list[str]:
    texts = [f"{QUESTION} AS question", f"{ANSWER} AS answer"] if members.texts else []
    attributes = [
        f"{_short(f'leaves[{{attribute_{place}:String}}]')} AS attribute_{place}"
        for place in range(len(members.attributes))
    ]
    return [*texts, *attributes]


def _members(found: Sequence[Sequence[str]], members: TextMembers) -> dict[str, Any]:
    """Return the members of one trace; ``found`` are the texts of its root and its last model call."""
    values: dict[str, Any] = {}
    places = iter(range(2 * members.texts + len(members.attributes)))
    for name in ("question", "answer") if members.texts else ():
        place = next(places)
        values[name] = _first_of(found, place, _folded) or None
    attributes = {path: _first_of(found, next(places), attribute_value) for path in members.attributes}
    values["attributes"] = {path: value for path, value in attributes.items() if value is not None} or None
    return values


def _first_of(found: Sequence[Sequence[str]], place: int, read: Callable[[str], Any]) -> Any:
    return next((read(texts[place]) for texts in found if texts[place]), None)


def _folded(typed: str) -> str:
    """Return a text on one line, cut where it is long."""
    text = " ".join(typed[1:].split())
    is_cut = len(text) > TEXT_MAX or len(typed) > _READ_MAX
    return text[:TEXT_MAX].rstrip() + _ELLIPSIS if is_cut else text


def attribute_value(typed: str) -> str | int | float | bool | None:
    """Return the scalar of a typed text (``common/clickhouse/leaves.py``); nothing for empty objects and arrays."""
    if typed in (EMPTY_OBJECT, EMPTY_ARRAY):
        return None
    kind, text = typed[0], typed[1:]
    if kind == "s":
        return _folded(typed)
    if kind == "b":
        return text == "1"
    number: int | float = orjson.loads(text)
    return number
