"""What all histories share: the types of their members, and a kind of history as a value.

Models are written once, under neutral names (``artifact``, ``variant_ref``, ``revision_id``; ``schemas.py``,
``responses.py``); handlers and the store know no others. ``Labels`` holds the names of a kind: ``application``,
``query_variant_ref``. Ids and slugs have several spellings, which all mean the same. ``wire_models.py`` is the border.

Unknown members are ignored in what creates or edits something (``Loose``). They are rejected in a query (``Strict``),
which would otherwise return more than the client meant. Source: contract §1, reference ``applications-api`` §1.1,
§1.2, §1.5, §6.2 and §8.1, ``spans-api`` §9.1.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from functools import cache
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self, TypeAlias
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from query_api.registry.diff import changed
from query_api.registry.values import Header, Kind
from query_api.request.json_body import ApiModel, Listed, Strict
from query_api.request.references import NamedSlug, ReferenceIn, Text, Time, refuse_nul
from query_api.spans.windowing import Order

JSON_DEPTH_MAX: Final = 64
"""Levels of nested objects and arrays in tags, metadata and data."""

SLUG_LENGTH_MAX: Final = 2_500
"""The longest slug that a Postgres index can hold after a fork has appended its suffix."""


def _not_too_long(slug: str) -> str:
    if len(slug) > SLUG_LENGTH_MAX:
        raise ValueError(f"'slug' must not be longer than {SLUG_LENGTH_MAX} characters.")
    return slug


def storable_json(value: dict[str, Any]) -> dict[str, Any]:
    """Return ``value``. Raise ``ValueError`` for U+0000, a number that is not finite, or more than 64 levels."""
    level: list[Any] = [value]
    for _ in range(JSON_DEPTH_MAX + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend((*item, *item.values()))
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, str):
                refuse_nul(item)
            elif isinstance(item, float) and not math.isfinite(item):  # the JSON parser of query strings lets it pass
                raise PydanticCustomError("json_invalid", "NaN and Infinity are not JSON.")
        if not below:
            return value
        level = below
    raise ValueError(f"Objects and arrays nest deeper than {JSON_DEPTH_MAX}.")


def _tags(value: dict[str, Any]) -> dict[str, Any]:
    for tag in value.values():
        if isinstance(tag, dict):
            _tags(tag)
        elif not isinstance(tag, str | bool):
            # pydantic reports ValueError only
            raise ValueError("A tag is a text, a boolean or an object of tags.")  # noqa: TRY004
    return value


def in_utc(moment: datetime) -> datetime:
    """Convert to UTC. A time without a zone is UTC."""
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("This time has no date in UTC.") from exc


Slug = Annotated[NamedSlug, AfterValidator(_not_too_long)]
Moment = Annotated[Time, AfterValidator(in_utc)]
Meta = Annotated[dict[str, Any], AfterValidator(storable_json)]
Tags = Annotated[Meta, AfterValidator(_tags)]


class Loose(ApiModel):
    """An object whose unknown members are ignored."""

    model_config = ConfigDict(frozen=True)


class LooseReferenceIn(ReferenceIn):
    """A reference in a body that creates something: unknown members are ignored."""

    model_config = ConfigDict(extra="ignore")


class HeaderIn(Loose):
    """The name, description, tags and metadata of an artifact, a variant or a revision."""

    name: Text | None = None
    description: Text | None = None
    tags: Tags | None = Field(None, description="Tags: texts, booleans, and objects of these.")
    meta: Meta | None = Field(None, description="Metadata: any JSON object.")

    def header(self) -> Header:
        """Return the values that the store takes."""
        tags, meta = (None if value is None else json_text(value) for value in (self.tags, self.meta))
        return Header(self.name, self.description, tags, meta)


class IdWindowing(Strict):
    """The page to return. The order is descending by default."""

    newest: Moment | None = Field(None, description="Upper bound of created_at; exclusive in descending order.")
    oldest: Moment | None = Field(None, description="Lower bound of created_at; exclusive in ascending order.")
    next: UUID | None = Field(None, description="The id of the last row of the previous page.")
    limit: int | None = Field(
        None, description="Rows on a page, at least 1. Without it all rows are returned, up to 64 MiB."
    )
    order: Order | None = None
    interval: int | None = Field(None, gt=0, description="Ignored here.")
    rate: float | None = Field(None, ge=0, le=1, description="Ignored here.")


def json_text(value: Any) -> str:
    """Return the JSON text to store: members in the order in which they were sent, exact integers."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


# Kinds


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
WORKFLOWS: Final = Labels(
    Kind.APPLICATION, "workflow", "workflows", ("workflow", "artifact"), "a workflow", "workflows"
)
EVALUATORS: Final = Labels(
    Kind.APPLICATION, "evaluator", "evaluators", ("evaluator", "workflow", "artifact"), "an evaluator", "evaluators"
)
FAMILIES: Final = (APPLICATIONS, WORKFLOWS, EVALUATORS)
"""The names under which the rows of ``Kind.APPLICATION`` are shown, with the same ids. Lists of applications and of
evaluators require a role of the artifact (``RoleFlags.role``); everything that names a row takes any of them."""

QUERIES: Final = Labels(Kind.QUERY, "query", "queries", ("query", "artifact"), "a saved query", "saved queries")
ENVIRONMENTS: Final = Labels(
    Kind.ENVIRONMENT, "environment", "environments", ("environment", "artifact"), "an environment", "environments"
)


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


class PerKind(ApiModel):
    """A model with neutral names, from which ``for_kind`` derives one for each kind."""

    labels: ClassVar[Labels | None] = None
    """Set on derived models."""

    other_spellings: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The fields that a derived model adds for the other spellings of a field."""

    @model_validator(mode="after")
    def _with_first_spellings(self) -> Self:
        """Take each value from the first spelling under which it was given."""
        first = {
            name: next(value for other in others if (value := getattr(self, other)) is not None)
            for name, others in self.other_spellings.items()
            if getattr(self, name) is None and any(getattr(self, other) is not None for other in others)
        }
        return self.model_copy(update=first) if first else self

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

    role: ClassVar[str | None] = None
    """The flag that is always set on artifacts of this family, and that its lists require. ``None``: lists show all
    rows of the kind."""

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

    @property
    def role(self) -> str | None:
        """The flag that its artifacts have, and that its lists require."""
        return None if self.role_flags is None else self.role_flags.role

    def snapshot(self, data: RevisionData | None) -> RevisionState:
        """Return what a commit stores. Raises ``InvalidInput`` for valid JSON that means nothing."""
        return RevisionState(None if data is None else data.stored(), (data or self.data()).flags())
