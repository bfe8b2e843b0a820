"""A kind of history as a value: its names, its models, and its rules.

Models are written once, under neutral names (``artifact``, ``variant_ref``, ``revision_id``; ``schemas.py``,
``responses.py``); handlers and the store know no others. ``Labels`` holds the names of a kind: ``application``,
``query_variant_ref``. Ids and slugs have several spellings, which all mean the same. ``for_kind`` is the border: it
derives from a neutral model the one that validates and documents the requests of a kind. Source: reference
``applications-api`` §1.2 and §6.2, ``spans-api`` §9.1.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, reduce
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar, Union, cast, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, Field, PrivateAttr, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import SkipJsonSchema

from query_api.registry.diff import changed
from query_api.registry.fields import Loose, Meta, json_text
from query_api.registry.values import Kind
from query_api.request.json_body import Listed, Strict
from query_api.request.references import Text

_LAYER_MEMBER: Final = re.compile(r"(artifact|variant|revision)(s|_refs?|_id|_slug)?")
_SPELLED_MEMBER: Final = re.compile(r"(artifact|variant|revision)_(id|slug)")
_WORD: Final = re.compile(r"\b(an artifact|artifacts?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Labels:
    """The names of one kind."""

    kind: Kind
    """The kind whose rows are meant."""

    artifact: str
    artifacts: str
    spellings: tuple[str, ...]
    """Prefixes of the members for ids and slugs. The first is the kind's own; ``artifact`` means the neutral name."""

    one: str
    """In texts, with its article: ``a saved query``."""

    several: str

    @property
    def variant(self) -> str:
        """The member that holds a variant: ``application_variant``."""
        return self.own_name("variant")

    @property
    def revision(self) -> str:
        """The member that holds a revision: ``application_revision``."""
        return self.own_name("revision")

    def own_name(self, member: str) -> str:
        """Return the kind's own name of a neutral member: ``variant_refs`` becomes ``application_variant_refs``."""
        return self.artifacts if member == "artifacts" else _prefixed(self.artifact, member)

    def spellings_of(self, member: str) -> tuple[str, ...]:
        """Return every name of a neutral member on the wire, the kind's own first. Only ids and slugs have several."""
        return _spellings(self, member)

    def on_wire(self, members: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``members`` under their names on the wire, ids and slugs in every spelling."""
        return {name: value for member, value in members.items() for name in _spellings(self, member)}

    def in_words(self, text: str) -> str:
        """Return ``text`` with the kind's words instead of ``an artifact``, ``artifact`` and ``artifacts``."""
        return _WORD.sub(self._word, text)

    def _word(self, match: re.Match[str]) -> str:
        words = {"an artifact": self.one, "artifact": self.one.split(" ", 1)[1], "artifacts": self.several}
        word = words[match[0].lower()]
        return word[0].upper() + word[1:] if match[0][0].isupper() else word


@cache  # a few dozen, each needed several times a request
def _spellings(labels: Labels, member: str) -> tuple[str, ...]:
    if _SPELLED_MEMBER.fullmatch(member):
        return tuple(member if prefix == "artifact" else _prefixed(prefix, member) for prefix in labels.spellings)
    return (labels.own_name(member),) if _LAYER_MEMBER.fullmatch(member) else (member,)


def _prefixed(prefix: str, member: str) -> str:
    return prefix + member.removeprefix("artifact") if member.startswith("artifact") else f"{prefix}_{member}"


APPLICATIONS: Final = Labels(
    Kind.APPLICATION,
    "application",
    "applications",
    ("application", "workflow", "artifact"),
    "an application",
    "applications",
)
QUERIES: Final = Labels(Kind.QUERY, "query", "queries", ("query", "artifact"), "a saved query", "saved queries")
ENVIRONMENTS: Final = Labels(
    Kind.ENVIRONMENT, "environment", "environments", ("environment", "artifact"), "an environment", "environments"
)


Model = TypeVar("Model", bound=BaseModel)


class Mark(Enum):
    """Marks a field of a ``PerKind`` model that depends on the kind. Wrappers and references need no mark."""

    OWN_NAME = auto()
    """The field has only the kind's own name."""

    EVERY_SPELLING = auto()
    """The field has every spelling of the kind; in a request the first that is given counts."""

    ANY_FLAGS = auto()
    """A kind without flags takes any object here, and ignores it. Without this mark it does not have the field."""


SpelledId: TypeAlias = Annotated[UUID | None, Mark.EVERY_SPELLING]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The names in the examples of the OpenAPI document."""

    slug: str
    name: str
    data: Mapping[str, Any]


class PerKind(BaseModel):
    """A model with neutral names, from which ``for_kind`` derives one for each kind."""

    labels: ClassVar[Labels | None] = None
    """Set on derived models."""

    other_spellings: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The fields that a derived model adds for the other spellings of a field."""

    def model_post_init(self, _context: Any, /) -> None:
        """Take a value from the first spelling under which it was given."""
        for name, others in self.other_spellings.items():
            values = (getattr(self, field) for field in (name, *others))
            first = next((value for value in values if value is not None), None)
            object.__setattr__(self, name, first)  # the models are frozen

    @classmethod
    def example(cls, _sample: Sample) -> dict[str, Any] | None:
        """Return an example in neutral names for the document."""
        return None


class FlagsIn(Loose):
    """Flags of a kind; unknown flags are ignored."""

    def given(self) -> Mapping[str, bool]:
        """Return the flags that were sent."""
        return self.model_dump(exclude_none=True)


class FlagConditions(NamedTuple):
    """The flags that a query asks for, as JSON texts: those of the artifact and those of the revision."""

    of_artifact: str | None = None
    of_revision: str | None = None


class RevisionState(NamedTuple):
    """What a commit stores: the data and the flags that follow from it, as JSON texts."""

    data: str | None
    flags: str | None


# A kind has its own models in place of the following five. A kind without flags has none of the first two.


class RoleFlags(FlagsIn):
    """The flags of an artifact."""

    def stored(self) -> str:
        """Return the flags to store on the artifact, as JSON text."""
        return json_text(self.given())


class RevisionFlags(RoleFlags):
    """The flags of a revision: those of its artifact, and those that follow from its data."""


class FlagsFilter(FlagsIn, Strict):
    """Flags in a query: an unknown one is rejected."""

    def conditions(self) -> FlagConditions:
        """Return the flags by where they are stored."""
        given = self.given()
        return FlagConditions(json_text(given) if given else None)


class RevisionData(Strict):
    """The data of a revision. Unknown members are rejected: a typo would be lost silently."""

    _text: str = PrivateAttr("{}")

    def model_post_init(self, _context: Any, /) -> None:
        """Render the text where the data is validated: for a large body that is another process."""
        self._text = json_text(self.model_dump(mode="json", by_alias=True, exclude_none=True))

    def text(self) -> str:
        """Return the data as JSON, without null members."""
        return self._text

    def stored(self) -> str | None:
        """Return the JSON to store. Raises ``InvalidInput`` for valid JSON that means nothing."""
        return self.text()

    def flags(self) -> str | None:
        """Return the flags that follow from the data, as JSON text; ``None`` if the kind has none."""
        return None


class Delta(Strict):
    """A change of the newest data."""

    set: Meta | None = Field(None, description="Merged into the data: objects member by member, other values replaced.")
    remove: Listed[Annotated[Text, Field(min_length=1)]] | None = Field(
        None, description="Dotted paths to remove after the merge."
    )

    def applied_to(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data with the change."""
        return changed(data, merged=self.set or {}, removed=self.remove or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One kind of history. The defaults are those of a kind without flags. Values travel to the compute processes."""

    labels: Labels
    sample: Sample
    data: type[RevisionData]
    """What a revision holds."""

    delta: type[Delta] = Delta
    role_flags: type[RoleFlags] | None = None
    revision_flags: type[RevisionFlags] | None = None
    flags_filter: type[FlagsFilter] = FlagsFilter
    archives_with_variant: bool = False
    """Whether the simple routes archive an artifact together with its first variant."""

    def snapshot(self, data: RevisionData | None) -> RevisionState:
        """Return what a commit stores. Raises ``InvalidInput`` for valid JSON that means nothing."""
        return RevisionState(None if data is None else data.stored(), (data or self.data()).flags())

    def model_of(self, neutral: type[BaseModel]) -> type[BaseModel] | None:
        """Return the model of this kind that is derived from ``neutral``; ``None`` for a flags model if the kind has no
        flags.
        """
        own = {
            RoleFlags: self.role_flags,
            RevisionFlags: self.revision_flags,
            FlagsFilter: self.flags_filter,
            RevisionData: self.data,
            Delta: self.delta,
        }
        return own[neutral] if neutral in own else for_kind(neutral, self)


_WRAPPER: Final = re.compile(r"(artifact|variant|revision)(s|_refs?)?")
_SYNONYM: Final = "Another name of the same member."
_IGNORED: TypeAlias = Annotated[SkipJsonSchema[None], BeforeValidator(lambda _: None)]
"""A member that the kind does not have: accepted like every unknown member, and not documented."""

_derived: Final[dict[str, type[BaseModel]]] = {}


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
    _derived[class_name] = derived
    return derived


def __getattr__(name: str) -> type[BaseModel]:
    """Return a derived model: pickle finds it by its name, in the compute processes too."""
    try:
        return _derived[name]
    except KeyError:
        raise AttributeError(name) from None


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
        return history.model_of(annotation) or _IGNORED
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


def _example_on_wire(example: Mapping[str, Any], labels: Labels) -> dict[str, Any]:
    """Rename the members of an example at its first two levels, ids and slugs by the kind's own name."""
    return {
        labels.spellings_of(member)[0]: {labels.spellings_of(name)[0]: inner for name, inner in value.items()}
        for member, value in example.items()
    }
