"""What the routes of each kind take and give, spelt out in ``tests/golden/shapes``: ``!`` is required, ``[]`` a list.

Models that are made for a kind are opened, those of answers at the end; others are named, and stand in the source so.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from query_api.registry import members
from query_api.registry.applications_routes import APPLICATION_ROUTES
from query_api.registry.environments_routes import ENVIRONMENT_ROUTES
from query_api.registry.queries_routes import QUERY_ROUTES
from query_api.request.route import Route

GOLDEN = Path(__file__).parents[3] / "golden/shapes"
KINDS = {"applications": APPLICATION_ROUTES, "environments": ENVIRONMENT_ROUTES, "queries": QUERY_ROUTES}


@pytest.mark.parametrize("kind", KINDS)
def test_every_body_and_answer_is_as_in_the_golden_file(kind: str, request: pytest.FixtureRequest) -> None:
    golden, text = GOLDEN / f"{kind}.txt", "\n".join(_spelt(KINDS[kind]))
    if request.config.getoption("--rewrite-golden"):
        golden.write_text(text)

    assert text == golden.read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_the_document_shows_an_example_of_everything_that_is_made(kind: str) -> None:
    made = {f"/{kind}", f"/simple/{kind}", f"/{kind}/variants/fork", f"/{kind}/revisions/commit"}
    bodies = {route.path: route.body for route in KINDS[kind] if route.method == "POST"}

    without = [path for path in made if not (body := bodies[path]) or not body.model_json_schema().get("examples")]

    assert without == []


def _spelt(routes: Sequence[Route]) -> Iterator[str]:
    shown: dict[str, type[BaseModel]] = {}
    for route in routes:
        yield f"{route.method} {route.path}: {route.summary}"
        for part, model in (("query", route.query), ("body", route.body)):
            if model is not None:
                yield _filled(f"{part:8}{_members(model, opens=_is_made)}")
        if route.response is not None:
            yield _filled(f"answer  {_members(route.response)}")
            shown |= {kind.__name__: kind for kind in _kinds(route.response) if _is_made(kind)}
        yield ""
    for name, kind in shown.items():
        yield f"{name}\n{_filled(_members(kind))}\n"


def _filled(text: str) -> str:
    return textwrap.fill(
        text,
        width=128,
        initial_indent=" " * 4,
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _members(model: type[BaseModel], *, opens: Callable[[type[BaseModel]], bool] = lambda _: False) -> str:
    """The names of its members. Those that are models are named too, or opened."""
    spelt = []
    for name, field in model.model_fields.items():
        kind, brackets = _unwrapped(field.annotation)
        own = f"{field.alias or name}{brackets}{'!' if field.is_required() else ''}"
        if not _is_model(kind):
            spelt.append(own)
        else:
            spelt.append(f"{own}{{{_members(kind, opens=opens)}}}" if opens(kind) else f"{own}:{kind.__name__}")
    return " ".join(spelt)


def _kinds(model: type[BaseModel]) -> list[type[BaseModel]]:
    kinds = [_unwrapped(field.annotation)[0] for field in model.model_fields.values()]
    return [kind for kind in kinds if _is_model(kind)]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _is_made(model: type[BaseModel]) -> bool:
    return model.__module__ == members.__name__


def _unwrapped(annotation: Any) -> tuple[Any, str]:
    """What a member holds where it is not null: the type, the first of two, and ``[]`` where that is one of several."""
    if get_origin(annotation) in (Union, UnionType):
        annotation, *_ = [each for each in get_args(annotation) if each is not type(None)]
    if get_origin(annotation) is Annotated and get_origin(get_args(annotation)[0]) is list:
        annotation, *_ = get_args(annotation)
    return (get_args(annotation)[0], "[]") if get_origin(annotation) is list else (annotation, "")
