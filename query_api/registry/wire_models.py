"""The models that a kind of history has on the wire: those of ``schemas.py`` and others, with the names of the kind.

``for_kind`` derives from a neutral model the one that validates and documents the requests of a kind (ADR 0036).
Source: reference ``applications-api`` §1.2 and §6.2, ``spans-api`` §9.1.
"""

from __future__ import annotations

import copyreg
import operator
import re
from collections.abc import Mapping
from functools import reduce
from types import UnionType
from typing import Annotated, Any, Final, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, Field, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import SkipJsonSchema

from query_api.registry.kinds import (
    Delta,
    FlagsFilter,
    History,
    Labels,
    Mark,
    PerKind,
    RevisionData,
    RevisionFlags,
    RoleFlags,
)

Model = TypeVar("Model", bound=BaseModel)

_WRAPPER: Final = re.compile(r"(artifact|variant|revision)(s|_refs?)?")
_SYNONYM: Final = "Another name of the same member."
_IGNORED: TypeAlias = Annotated[SkipJsonSchema[None], BeforeValidator(lambda _: None)]
"""A member that the kind does not have: accepted like every unknown member, and not documented."""

_derived: Final[dict[str, type[BaseModel]]] = {}
_sources: Final[dict[type[BaseModel], tuple[type[BaseModel], History]]] = {}
"""What each derived model was derived from."""


def for_kind(model: type[Model], history: History) -> type[Model]:
    """Return ``model`` with the member names, flags, data and wording of a kind.

    The result is a subclass, so handlers use the attributes of ``model``. Validation errors show the names on the wire.
    """
    if not issubclass(model, PerKind):
        return model
    labels = history.labels
    class_name = _class_name(model.__name__, labels)
    if class_name in _derived:
        return cast(type[Model], _derived[class_name])
    fields: dict[str, Any] = {}
    other_spellings: dict[str, tuple[str, ...]] = {}
    for name, field in model.model_fields.items():
        annotation = _typed(field.annotation, history)
        if annotation is _IGNORED and Mark.ANY_FLAGS in field.metadata:
            annotation = field.annotation
        own, *others = _wire_names(name, field, labels)
        if own != (field.alias or name) or annotation is not field.annotation:
            fields[name] = (annotation, _renamed(field, own, field.description and labels.in_words(field.description)))
        if others:
            other_spellings[name] = tuple(f"also_{other}" for other in others)
            fields |= {f"also_{other}": (annotation, _renamed(field, other, _SYNONYM)) for other in others}
    doc = labels.in_words(model.__doc__ or "")
    derived = create_model(class_name, __base__=model, __doc__=doc, __module__=__name__, **fields)
    derived.labels = labels
    derived.other_spellings = other_spellings
    if (example := derived.example(history.sample)) is not None:
        derived.model_config["json_schema_extra"] = {"examples": [_example_on_wire(example, labels)]}
    _derived[class_name], _sources[derived] = derived, (model, history)
    return derived


def _pickled(model: type[BaseModel]) -> str | tuple[Any, ...]:
    """Pickle a derived model as what derives it, in the compute processes too; any other one by its name."""
    return (for_kind, _sources[model]) if model in _sources else model.__qualname__


copyreg.pickle(type(BaseModel), _pickled)


def _class_name(name: str, labels: Labels) -> str:
    """Return a name for the document: ``CommitRevision`` becomes ``CommitQueryRevision``, ``ArtifactOut`` ``Query``."""
    one, several = labels.artifact.title(), labels.artifacts.title()
    layers = {
        "Artifacts": several,
        "Artifact": one,
        "Simples": f"Simple{several}",
        "Simple": f"Simple{one}",
        "Variant": f"{one}Variant",
        "Revision": f"{one}Revision",
    }
    layer = next((layer for layer in layers if layer in name), None)
    return f"{one}{name}" if layer is None else name.removesuffix("Out").replace(layer, layers[layer], 1)


def _wire_names(name: str, field: FieldInfo, labels: Labels) -> tuple[str, ...]:
    neutral = field.alias or name
    if Mark.EVERY_SPELLING in field.metadata:
        return labels.spellings_of(neutral)
    is_own = Mark.OWN_NAME in field.metadata or _WRAPPER.fullmatch(neutral)
    return (labels.own_name(neutral),) if is_own else (neutral,)


def _renamed(field: FieldInfo, wire_name: str, description: str | None) -> Any:
    default = ... if field.is_required() else field.default
    return Field(default, alias=wire_name, description=description)


def _typed(annotation: Any, history: History) -> Any:
    """Return a type with the kind's models in place of the neutral ones."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _model_of(annotation, history) or _IGNORED
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not arguments:
        return annotation
    first, *others = (_typed(argument, history) for argument in arguments)
    if [first, *others] == list(arguments):
        return annotation
    if first is _IGNORED:
        return _IGNORED
    if origin in (Union, UnionType):
        return reduce(operator.or_, others, first)
    return Annotated[(first, *arguments[1:])] if origin is Annotated else origin[(first, *others)]


def _model_of(neutral: type[BaseModel], history: History) -> type[BaseModel] | None:
    """Return the model of a kind; ``None`` for a flags model if the kind has no flags."""
    own = {
        RoleFlags: history.role_flags,
        RevisionFlags: history.revision_flags,
        FlagsFilter: history.flags_filter,
        RevisionData: history.data,
        Delta: history.delta,
    }
    return own[neutral] if neutral in own else for_kind(neutral, history)


def _example_on_wire(example: Mapping[str, Any], labels: Labels) -> dict[str, Any]:
    """Rename the members of an example at its first two levels, ids and slugs by the kind's own name."""
    return {
        labels.spellings_of(member)[0]: {labels.spellings_of(name)[0]: inner for name, inner in value.items()}
        for member, value in example.items()
    }
