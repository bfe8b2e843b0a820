"""The bodies and answers of a kind, made of its words and of what its revisions hold.

Every kind takes and gives the same shapes under names of its own: ``query_variant`` here, ``environment_variant`` there. A kind
makes its ``Shapes`` once; where it takes or gives something else it puts a model of its own in place of one (``dataclasses.replace``).
Source: reference ``applications-api`` §1.2, §4–§8, ``spans-api`` §9.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

from pydantic import BaseModel, Field, create_model

from query_api.lineage.answered import ForkedFrom, Header, Lifecycle, ResolutionInfo, RetrievalInfo
from query_api.lineage.bodies import (
    ArtifactAsked,
    ArtifactCreate,
    ArtifactEdit,
    Asked,
    Delta,
    EntityEdit,
    FlagsIn,
    LogAsked,
    Question,
    RevisionAsked,
    RevisionCommit,
    RevisionCreate,
    RevisionData,
    RevisionRevert,
    SimpleCreate,
    SimpleEdit,
    VariantCreate,
)
from query_api.lineage.models import Loose, ReferenceIn
from query_api.lineage.names import Names

Model: TypeAlias = type[BaseModel]

_OLDER: Final = "The same under another name."


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the artifacts and revisions of a kind hold. ``FlagsIn`` itself: no flags."""

    data: type[RevisionData]
    delta: type[Delta] = Delta
    roles: type[FlagsIn] = FlagsIn
    """The flags of an artifact, which its variants show too."""

    flags: type[FlagsIn] = FlagsIn
    """The flags of a revision: the roles of its artifact, and those that follow from its data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactShapes:
    """Of artifacts. ``parameters`` is a question in the query string, where a kind takes that."""

    chosen_id: Model
    create: Model
    edit: Model
    question: Model
    parameters: Model | None = None
    one: Model
    several: Model


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantShapes:
    """Of variants."""

    create: Model
    edit: Model
    fork: Model
    fork_parameters: Model
    question: Model
    parameters: Model | None = None
    one: Model
    several: Model


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionShapes:
    """Of revisions."""

    create: Model
    commit: Model
    edit: Model
    revert: Model
    question: Model
    log: Model
    retrieve: Model
    one: Model
    several: Model
    retrieved: Model
    """The answer to ``retrieve``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleShapes:
    """Of artifacts together with what the head of their first variant holds."""

    create: Model
    edit: Model
    question: Model
    one: Model
    several: Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """All bodies and answers of one kind."""

    artifacts: ArtifactShapes
    variants: VariantShapes
    revisions: RevisionShapes
    simple: SimpleShapes


def shapes_of(names: Names, held: Held) -> Shapes:
    """The shapes of a kind. Models are named after it: ``CreateQuery``, ``QueryVariantAnswer``."""
    maker = _Maker(names, held)
    return Shapes(
        artifacts=maker.artifacts(), variants=maker.variants(), revisions=maker.revisions(), simple=maker.simple()
    )


class _Maker:
    """Makes the models of one kind, layer by layer."""

    def __init__(self, names: Names, held: Held) -> None:
        self._names = names
        self._held = held
        self._one = names.artifact.title()
        self._several = names.artifacts.title()

    def artifacts(self) -> ArtifactShapes:
        one, member = self._one, self._names.artifact
        roles = _flags(self._held.roles)
        create = _model(f"{one}Create", "What is made.", ArtifactCreate, **roles)
        edit = _model(f"{one}Edit", "What changes; what is absent stays.", ArtifactEdit, **roles)
        asked = _model(f"{one}Asked", "What they have in common.", ArtifactAsked, **roles)
        shown = _model(
            one, "As it is shown.", Header, Lifecycle, **_shown_flags(self._held.roles), folder_id=(UUID | None, None)
        )
        chosen_id = {
            f"{member}_id": (UUID | None, Field(None, description="Of what is made, if the caller chooses it."))
        }
        return ArtifactShapes(
            chosen_id=_model(f"Chosen{one}Id", "The id, if the caller chooses it.", Loose, **chosen_id),
            create=_wrapping(f"Create{one}", member, create),
            edit=_wrapping(f"Edit{one}", member, edit),
            question=self._question(f"{self._several}Question", member, asked, [self._names.artifact_ref]),
            one=_answer_of_one(f"{one}Answer", member, shown),
            several=_answer_of_several(f"{self._several}Answer", self._names.artifacts, shown),
        )

    def variants(self) -> VariantShapes:
        one, names = f"{self._one}Variant", self._names
        roles = _flags(self._held.roles)
        create = _model(f"{one}Create", "What is made.", VariantCreate, **roles, **_ids(names.artifact_members("id")))
        asked = _model(f"{one}Asked", "What they have in common.", Asked, **roles)
        shown = self._shown_variant(one)
        other_way = {f"{names.variant}_id": (UUID | None, None)}
        return VariantShapes(
            create=_wrapping(f"Create{one}", names.variant, create),
            edit=_wrapping(f"Edit{one}", names.variant, EntityEdit),
            fork=self._fork(one),
            fork_parameters=_model(f"Fork{one}Parameters", "Which one, another way to say it.", Loose, **other_way),
            question=self._question(f"{one}sQuestion", names.variant, asked, [names.artifact_ref, names.variant_ref]),
            one=_answer_of_one(f"{one}Answer", names.variant, shown),
            several=_answer_of_several(f"{one}sAnswer", names.variants, shown),
        )

    def revisions(self) -> RevisionShapes:
        one, names = f"{self._one}Revision", self._names
        target = {**_ids(names.variant_members("id")), **_ids(names.artifact_members("id"))}
        ids = {**_ids(names.revision_members("id")), **target}
        flags = _flags(self._held.flags)
        create = _model(f"{one}Create", "The first of its variant.", RevisionCreate, **target, **flags)
        edit = _model(f"{one}Edit", "What is written about it; what is absent is cleared.", EntityEdit, **flags)
        asked = _model(f"{one}Asked", "What they have in common.", RevisionAsked, **flags)
        revert = {names.revision: (RevisionRevert | None, None)}
        references = [names.artifact_ref, names.variant_ref, names.revision_ref]
        named: dict[str, Any] = {**_references(references), "resolve": (bool | None, None)}
        shown = self._shown_revision(one)
        answer = _answer_of_one(f"{one}Answer", names.revision, shown)
        return RevisionShapes(
            create=_wrapping(f"Create{one}", names.revision, create),
            commit=_wrapping(f"Commit{one}", names.revision, self._commit(one, {**target, **flags})),
            edit=_wrapping(f"Edit{one}", names.revision, edit),
            revert=_model(f"Revert{one}", "How it is committed.", Loose, **revert),
            question=self._question(f"{one}sQuestion", names.revision, asked, references),
            log=_wrapping(f"Log{one}s", names.revisions, _model(f"{one}sLogged", "Whose log.", LogAsked, **ids)),
            retrieve=_model(f"Retrieve{one}", "Which revision.", Loose, **named),
            one=answer,
            several=_answer_of_several(f"{one}sAnswer", names.revisions, shown),
            retrieved=_retrieved(f"Retrieved{one}Answer", answer),
        )

    def simple(self) -> SimpleShapes:
        one, member = f"Simple{self._one}", self._names.artifact
        flags = _flags(self._held.flags)
        taken: dict[str, Any] = {**flags, "data": (self._held.data | None, None)}
        create = _model(f"{one}Create", "What is made, with what its first revision holds.", SimpleCreate, **taken)
        edit = _model(f"{one}Edit", "What changes; anything but `id` makes a revision.", SimpleEdit, **taken)
        asked = _model(f"{one}Asked", "What they have in common.", ArtifactAsked, **flags)
        shown = _model(
            one,
            "With what the newest revision of its first variant holds.",
            Header,
            Lifecycle,
            **_shown_flags(self._held.flags),
            folder_id=(UUID | None, None),
            data=(self._held.data, ...),
            variant_id=(UUID, ...),
            revision_id=(UUID, ...),
        )
        return SimpleShapes(
            create=_wrapping(f"Create{one}", member, create),
            edit=_wrapping(f"Edit{one}", member, edit),
            question=self._question(f"Simple{self._several}Question", member, asked, [self._names.artifact_ref]),
            one=_answer_of_one(f"{one}Answer", member, shown),
            several=_answer_of_several(f"Simple{self._several}Answer", self._names.artifacts, shown),
        )

    def _fork(self, one: str) -> Model:
        names = self._names
        forked = _model(f"{one}Fork", "The variant that a fork makes.", VariantCreate, **_flags(self._held.roles))
        cut = Field(None, description="The last revision to copy; the newest if absent.")
        members: dict[str, Any] = {
            names.variant: (forked, ...),
            names.variant_ref: (ReferenceIn, Field(description="The variant to fork, by id or slug.")),
            names.revision_ref: (ReferenceIn | None, cut),
        }
        return _model(f"Fork{one}", "A fork to be made.", Loose, **members)

    def _commit(self, one: str, members: dict[str, Any]) -> Model:
        whole = Field(None, description="All of it: nothing is taken over from the head.")
        change = Field(None, description="In place of `data`: what changes of the head's.")
        holding: dict[str, Any] = {"data": (self._held.data | None, whole), "delta": (self._held.delta | None, change)}
        return _model(f"{one}Commit", "A new head of a variant.", RevisionCommit, **members, **holding)

    def _question(self, name: str, member: str, asked: Model, references: Iterable[str]) -> Model:
        several = {f"{each}s": (list[ReferenceIn] | None, None) for each in references}
        return _model(name, "Which ones.", Question, **{member: (asked | None, None)}, **several)

    def _shown_variant(self, one: str) -> Model:
        names = self._names
        return _model(
            one,
            "As it is shown.",
            Header,
            Lifecycle,
            **_shown_ids(names.artifact_members("id")),
            **_shown_slugs(names.artifact_members("slug")),
            **_shown_flags(self._held.roles),
            forked_from=(ForkedFrom | None, None),
        )

    def _shown_revision(self, one: str) -> Model:
        names = self._names
        return _model(
            one,
            "As it is shown.",
            Header,
            Lifecycle,
            version=(str, Field(description='"0", "1", "2", … without a gap.')),
            **_shown_ids(names.artifact_members("id")),
            **_shown_ids(names.variant_members("id")),
            **_shown_slugs((*names.artifact_members("slug"), *names.variant_members("slug"))),
            author=(UUID, ...),
            date=(datetime, ...),
            message=(str | None, None),
            **_shown_flags(self._held.flags),
            data=(self._held.data | None, None),
        )


def _model(name: str, doc: str, *bases: Model, **fields: Any) -> Model:
    return create_model(name, __base__=bases, __doc__=doc, __module__=__name__, **fields)


def _wrapping(name: str, member: str, model: Model) -> Model:
    """A body that holds one thing under its word."""
    return _model(name, "Under its word.", Loose, **{member: (model, ...)})


def _answer_of_one(name: str, member: str, shown: Model) -> Model:
    return _model(name, "One, or none.", BaseModel, count=(int, ...), **{member: (shown | None, None)})


def _answer_of_several(name: str, member: str, shown: Model) -> Model:
    several = {member: (list[shown], ...)}  # type: ignore[valid-type]
    return _model(name, "A page of them.", BaseModel, count=(int, ...), **several)


def _retrieved(name: str, answer: Model) -> Model:
    members: dict[str, Any] = {
        "resolution_info": (ResolutionInfo | None, Field(None, description="Where resolving was asked for.")),
        "retrieval_info": (RetrievalInfo | None, None),
    }
    return _model(name, "The revision that was named, or none.", answer, **members)


def _flags(model: type[FlagsIn]) -> dict[str, Any]:
    """As bodies take them, also where they follow from the data and so count for nothing."""
    return {} if model is FlagsIn else {"flags": (model | None, None)}


def _shown_flags(model: type[FlagsIn]) -> dict[str, Any]:
    return {} if model is FlagsIn else {"flags": (model, ...)}


def _references(members: Iterable[str]) -> dict[str, Any]:
    return dict.fromkeys(members, (ReferenceIn | None, None))


def _ids(members: Iterable[str]) -> dict[str, Any]:
    """An id in all its spellings, the kind's own first."""
    own, *others = members
    older = {member: (UUID | None, Field(None, description=_OLDER)) for member in others}
    return {own: (UUID | None, None), **older}


def _shown_ids(members: Iterable[str]) -> dict[str, Any]:
    own, *others = members
    return {own: (UUID, ...), **{member: (UUID, Field(description=_OLDER)) for member in others}}


def _shown_slugs(members: Iterable[str]) -> dict[str, Any]:
    return dict.fromkeys(members, (str | None, None))
