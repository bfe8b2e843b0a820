"""Models and members of models that the shapes of a kind are put together from (``shaping.py``).

A function that gives members gives what ``model`` takes as ``fields``: a type and a default by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, create_model

from query_api.registry.bodies import FlagsIn
from query_api.registry.models import Loose
from query_api.registry.names import Names
from query_api.registry.shapes import Model, RevisionShapes
from query_api.request.references import ReferenceIn

_OLDER: Final = "The same under another name."


_models: Final[dict[str, Model]] = {}


def model_of(name: str, doc: str, *bases: Model, **fields: Any) -> Model:
    """A model with the members of its bases, and ``fields``."""
    if name in _models:
        raise ValueError(f"two models have the name {name}")
    _models[name] = create_model(name, __base__=bases, __doc__=doc, __module__=__name__, **fields)
    return _models[name]


def __getattr__(name: str) -> Model:
    """A model that was made here, so that pickle finds it by its name, in another process too."""
    try:
        return _models[name]
    except KeyError:
        raise AttributeError(name) from None


def wrapping(name: str, member: str, model: Model, *, example: Mapping[str, Any] | None = None) -> Model:
    """A body that holds one thing under its word."""
    base = Loose if example is None else with_example({member: example})
    return model_of(name, "Under its word.", base, **{member: (model, ...)})


def with_example(example: Mapping[str, Any]) -> Model:
    """What to build a body on of which the document shows an example."""

    class Exemplary(Loose):
        model_config = ConfigDict(json_schema_extra={"examples": [dict(example)]})

    return Exemplary


def flags_asked(model: type[FlagsIn]) -> dict[str, Any]:
    """As questions take them."""
    return {"flags": (model | None, None)}


def answer_of_one(name: str, member: str, shown: Model) -> Model:
    """``{count, <member>}``, the member absent where there is none."""
    return model_of(name, "One, or none.", BaseModel, count=(int, ...), **{member: (shown | None, None)})


def answer_of_several(name: str, member: str, shown: Model) -> Model:
    """``{count, <member>: […]}``."""
    several = {member: (list[shown], ...)}  # type: ignore[valid-type] # a model that is made here
    return model_of(name, "A page of them.", BaseModel, count=(int, ...), **several)


def revision_shown(shapes: RevisionShapes, names: Names) -> Model:
    """Return the model of a revision in the answers of a kind."""
    shown, _none = get_args(shapes.one.model_fields[names.revision].annotation)
    model: Model = shown
    return model


def data_alone(value: Any, shown: Model) -> Any:
    """Return a revision without the members that answers show, except ``data``. Unknown members stay, so that they are refused."""
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in value.items() if name == "data" or name not in shown.model_fields}


def flags_taken(model: type[FlagsIn], description: str | None = None) -> dict[str, Any]:
    """As bodies take them, also where they count for nothing."""
    return {} if model is FlagsIn else {"flags": (model | None, Field(None, description=description))}


def flags_shown(model: type[FlagsIn], *, always: bool) -> dict[str, Any]:
    """As answers show them; kinds without flags show none."""
    if model is FlagsIn:
        return {}
    return {"flags": (model, ...) if always else (model | None, None)}


def references_taken(members: Iterable[str]) -> dict[str, Any]:
    """References, each of which may be absent."""
    return dict.fromkeys(members, (ReferenceIn | None, None))


def ids_taken(members: Iterable[str]) -> dict[str, Any]:
    """An id in all its spellings, the kind's own first."""
    own, *others = members
    older = {member: (UUID | None, Field(None, description=_OLDER)) for member in others}
    return {own: (UUID | None, None), **older}


def ids_shown(members: Iterable[str]) -> dict[str, Any]:
    """The same, as answers show it."""
    own, *others = members
    return {own: (UUID, ...), **{member: (UUID, Field(description=_OLDER)) for member in others}}


def slugs_shown(members: Iterable[str]) -> dict[str, Any]:
    """A slug in all its spellings, where it is shown at all."""
    return dict.fromkeys(members, (str | None, None))
