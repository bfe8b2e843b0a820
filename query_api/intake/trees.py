"""From trees of spans to a list: children before their parent, each with the JSON path at which it stood.

Sources: reference §4.2–4.4. Lists of same-named siblings are honoured everywhere, at the top level too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from query_api.intake.models import Json


class Placed(NamedTuple):
    """One span without its children. ``is_top`` where nothing stands above it in the request."""

    path: str
    span: Json
    is_top: bool


def flatten(nodes: Mapping[str, Any] | None, *, path: str) -> list[Placed]:
    """The spans of a tree, given its roots by name (a node, or a list of them)."""
    return list(_walk(nodes, path=path, above=None))


def flatten_node(node: Json, *, path: str) -> list[Placed]:
    """The spans of a tree, given its root."""
    return list(_below(node, path=path, above=None))


def _walk(nodes: Mapping[str, Any] | None, *, path: str, above: Json | None) -> Iterator[Placed]:
    for name, value in (nodes or {}).items():
        if isinstance(value, list):
            for index, node in enumerate(value):
                yield from _below(node, path=f"{path}.{name}[{index}]", above=above)
        else:
            yield from _below(value, path=f"{path}.{name}", above=above)


def _below(node: Json, *, path: str, above: Json | None) -> Iterator[Placed]:
    yield from _walk(node.get("spans"), path=f"{path}.spans", above=node)
    span = {name: value for name, value in node.items() if name != "spans"}
    if above is not None and span.get("parent_id") is None:
        # Standing below a span says as much as naming it.
        span["parent_id"] = above["span_id"]
    yield Placed(path, span, above is None)
