"""What commands print: tables for people, one object a line for programs, progress on standard error.

Texts from an API are shown with control characters escaped, so that a span cannot command the terminal, and are never
read as markup. Colors appear only on a terminal, unless ``NO_COLOR`` is set.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Any, Final, Literal, NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from clearspan.console import ARE_TABLES_WIDE, print_json
from common.printable import printable

PIPE_WIDTH: Final = 4_000
"""Columns of a table that is not shown on a terminal, so that it need not fit one."""

PIPE_COLUMN_WIDTH_MAX: Final = 80
"""Columns to which a value is cut in a pipe, so that a long one does not pad every line."""

GAP: Final = 3
"""Columns between two values of a row."""

CUT_WIDTH_MIN: Final = 8
"""The least width to which a column is cut."""

NARROW: Final = 120
"""Columns of a terminal below which bars are half as wide."""

CELL_CHARACTERS_MAX: Final = 500
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_FULL: Final = "█"
_HEIGHTS: Final = "▁▂▃▄▅▆▇█"


class TableColumn(NamedTuple):
    """A column of a table.

    Values that are ``is_whole``, such as ids, are never cut. ``is_optional`` columns are left out of a terminal that is
    too narrow for all.
    """

    title: str
    justify: Literal["left", "right"] = "left"
    style: str = ""
    is_whole: bool = False
    is_optional: bool = False


class ProgressLine:
    """The progress of a long operation, shown on standard error if that is a terminal."""

    def __init__(self, progress: Progress, description: str, total: int | None) -> None:
        self._progress = progress
        self._bytes_count = 0
        self._task = progress.add_task(description, total=total, received="")

    def advance(self, count: int) -> None:
        """Add what was done."""
        self._progress.advance(self._task, count)

    def receive(self, bytes_count: int) -> None:
        """Add bytes that were received."""
        self._bytes_count += bytes_count
        self._progress.update(self._task, received=f"{self._bytes_count / 1e6:,.1f} MB")


class OutputConsole(Console):
    """A console that leaves a closed pipe to ``clearspan.cli.main``, as any other output does."""

    def on_broken_pipe(self) -> None:
        """Raise the ``BrokenPipeError`` that is being handled, instead of exiting with code 1."""
        raise  # noqa: PLE0704 - rich calls this while it handles the error


def console(*, stderr: bool = False) -> Console:
    """Return a console whose texts are printed as they are, with colors only on a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8
    width = None if stream.isatty() else PIPE_WIDTH
    return OutputConsole(
        file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False, legacy_windows=False
    )


def safe(value: object, style: str = "") -> Text:
    """Return a value as a text of one line: control characters escaped, long texts cut, objects as JSON."""
    if value is None:
        return Text("")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = text if len(text) <= CELL_CHARACTERS_MAX else text[: CELL_CHARACTERS_MAX - 1] + "…"
    return Text(printable(cut), style)


def print_table(columns: Sequence[TableColumn], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below their titles. Values are escaped; a ``Text`` is printed as it is.

    If the terminal is too narrow, columns are cut, but not those that are whole; if that is not enough, optional ones
    are left out. In a pipe, values are cut to ``PIPE_COLUMN_WIDTH_MAX``, except in columns that are whole and in the
    last one. ``wide_tables`` shows everything.
    """
    cells = [[value if isinstance(value, Text) else safe(value) for value in row] for row in rows]
    out = console()
    is_wide = ARE_TABLES_WIDE.get()
    if is_wide:
        out.width = max(PIPE_WIDTH, sum(_natural(columns, cells)) + GAP * len(columns))
    columns, cells = _fitting(columns, cells, available=out.width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    widths = _widths(columns, cells, available=out.width)
    if not (is_wide or out.is_terminal):
        widths = _bounded(columns, widths)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.title, justify=column.justify, style=column.style, width=width, no_wrap=True, overflow="ellipsis"
        )
    for row in cells:
        table.add_row(*row)
    out.width = max(out.width, sum(widths) + GAP * len(widths))
    if out.is_terminal:
        out.print(table, soft_wrap=True)
        return
    with out.capture() as captured:
        out.print(table, soft_wrap=True)
    for line in captured.get().splitlines():
        out.print(Text(line.rstrip()), soft_wrap=True)


def bar_width(usual: int) -> int:
    """Return the width of bars on standard output."""
    return usual if console().width >= NARROW else usual // 2


def _fitting(
    columns: Sequence[TableColumn], cells: Sequence[Sequence[Text]], *, available: int
) -> tuple[list[TableColumn], list[list[Text]]]:
    """Leave out optional columns until the rest fits, empty ones first, else from the left; say which."""
    shown = list(range(len(columns)))
    optional = [place for place in shown if columns[place].is_optional]
    optional.sort(key=lambda place: any(row[place] for row in cells))
    left_out: list[int] = []
    while optional and _least_width([columns[place] for place in shown], _picked(cells, shown)) > available:
        left_out.append(optional.pop(0))
        shown.remove(left_out[-1])
    if titles := [
        columns[place].title for place in left_out if columns[place].title and any(row[place] for row in cells)
    ]:
        note(f"The terminal is too narrow for {', '.join(titles)}.")
    return [columns[place] for place in shown], _picked(cells, shown)


def _picked(cells: Sequence[Sequence[Text]], places: Sequence[int]) -> list[list[Text]]:
    return [[row[place] for place in places] for row in cells]


def _natural(columns: Sequence[TableColumn], cells: Sequence[Sequence[Text]]) -> list[int]:
    return [
        max((cell_len(column.title), *(row[place].cell_len for row in cells))) for place, column in enumerate(columns)
    ]


def _least(columns: Sequence[TableColumn], natural: Sequence[int]) -> list[int]:
    return [
        width if column.is_whole else min(width, CUT_WIDTH_MIN) for column, width in zip(columns, natural, strict=True)
    ]


def _least_width(columns: Sequence[TableColumn], cells: Sequence[Sequence[Text]]) -> int:
    return sum(_least(columns, _natural(columns, cells))) + GAP * (len(columns) - 1)


def _widths(columns: Sequence[TableColumn], cells: Sequence[Sequence[Text]], *, available: int) -> list[int]:
    """Return the width of each column: what its values need, less where they do not fit."""
    natural = _natural(columns, cells)
    least = _least(columns, natural)
    excess = sum(natural) + GAP * (len(natural) - 1) - available
    spare = sum(natural) - sum(least)
    if excess <= 0 or spare == 0:
        return natural
    share = min(excess / spare, 1.0)
    return [width - ceil((width - low) * share) for width, low in zip(natural, least, strict=True)]


def _bounded(columns: Sequence[TableColumn], widths: Sequence[int]) -> list[int]:
    """Return widths in a pipe. The last column pads nothing."""
    *before, last = zip(columns, widths, strict=True)
    bounded = [width if column.is_whole else min(width, PIPE_COLUMN_WIDTH_MAX) for column, width in before]
    return [*bounded, last[1]]


def print_objects(objects: Iterable[Any]) -> None:
    """Print one JSON object a line."""
    for each in objects:
        print_json(each)


def note(sentence: str) -> None:
    """Say something on standard error that is not part of the result."""
    console(stderr=True).print(Text(printable(sentence), "dim"), soft_wrap=True)


def bar(share: float, width: int) -> str:
    """Return a bar that fills a share, from 0 to 1, of ``width`` characters."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    if share > 0 and eighths == 0:
        eighths = 1
    full, rest = divmod(eighths, 8)
    return (_FULL * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def place_bar(start: float, length: float, width: int) -> str:
    """Return a bar from a start, of a length; both are shares of ``width`` characters. It has at least one eighth."""
    first = min(int(min(max(start, 0.0), 1.0) * width), width - 1)
    return (" " * first + bar(length, width).rstrip())[:width].ljust(width)


def sparkline(values: Sequence[float | None], top: float) -> str:
    """Return one character for each value, as high as its share of ``top``; a blank where there is none."""
    return "".join(
        " " if value is None else _HEIGHTS[min(int(max(value, 0) / top * len(_HEIGHTS)), len(_HEIGHTS) - 1)]
        for value in values
    )


@contextmanager
def show_progress(description: str, *, total: int | None = None, is_printing: bool = False) -> Iterator[ProgressLine]:
    """Show progress on standard error while the block runs; it vanishes at the end.

    If the block prints results meanwhile, and to the same terminal, nothing is shown.
    """
    so_far = (TextColumn("{task.completed:,} spans"), TextColumn("{task.fields[received]}"))
    share = (BarColumn(), TaskProgressColumn())
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *(so_far if total is None else share),
        TimeElapsedColumn(),
    )
    err = console(stderr=True)
    is_shown = err.is_terminal and not (is_printing and sys.stdout.isatty())
    with Progress(
        *columns, console=err, transient=True, disable=not is_shown, redirect_stdout=False, redirect_stderr=False
    ) as progress:
        yield ProgressLine(progress, description, total)
