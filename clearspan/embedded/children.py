"""The list of child processes in the data directory, for the next start: the guard may have been killed, too."""

from __future__ import annotations

from dataclasses import asdict

from clearspan.embedded.guard import Child
from clearspan.embedded.layout import Layout, read_json, write_json


def write_children(layout: Layout, children: list[Child]) -> None:
    """Replace the list of children in the data directory."""
    write_json(layout.children, [asdict(child) for child in children])


def end_left_over(layout: Layout) -> list[Child]:
    """End the children of an earlier stack; return those that still lived.

    A list that another version of Clearspan has written in another form is ignored.
    """
    children = read_json(layout.children, lambda listed: [Child(**members) for members in listed])
    ended = [child for child in children or [] if child.end()]
    layout.children.unlink(missing_ok=True)
    return ended
