"""Makes the bodies and answers of a kind (``shapes.py``), layer by layer, of its words and of what its revisions hold.

What bodies and answers of all kinds share is written out in ``bodies.py`` and ``answered.py``; what is put into them here has
the names of the kind: its ids in all spellings, its references, its flags and its data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic import Field

from query_api.registry.answered import ForkedFrom, Header, Lifecycle, ResolutionInfo, RetrievalInfo
from query_api.registry.bodies import (
    ArtifactAsked,
    ArtifactCreate,
    ArtifactEdit,
    Asked,
    EntityEdit,
    FlagsIn,
    LogAsked,
    LogQuestion,
    Question,
    RevisionAsked,
    RevisionCommit,
    RevisionCreate,
    RevisionRevert,
    SimpleCreate,
    SimpleEdit,
    VariantCreate,
)
from query_api.registry.members import (
    answer_of_one,
    answer_of_several,
    flags_asked,
    flags_shown,
    flags_taken,
    ids_shown,
    ids_taken,
    model_of,
    references_taken,
    slugs_shown,
    with_example,
    wrapping,
)
from query_api.registry.models import CreatingReference, Loose
from query_api.registry.names import Names
from query_api.registry.parameters import parameters_model
from query_api.registry.shapes import ArtifactShapes, Held, Model, RevisionShapes, Shapes, SimpleShapes, VariantShapes
from query_api.request.body_models import Listed, Strict
from query_api.request.references import ReferenceIn

_OF_PARENT: Final = "Ignored: a variant shows those of its parent."
_DERIVED: Final = "Ignored: they follow from the data."
_EXAMPLE_ID: Final = "01a1fbd8-c525-7140-a8ae-e79b3fba464c"
_RESOLVE: Final = "Whether embedded references are resolved."


def shapes_of(names: Names, held: Held) -> Shapes:
    """The shapes of a kind. Models are named after it: ``CreateQuery``, ``QueryVariantResponse``."""
    maker = _Maker(names, held)
    return Shapes(
        artifacts=maker.artifacts(), variants=maker.variants(), revisions=maker.revisions(), simple=maker.simple()
    )


class _Maker:
    """Makes the models of one kind, layer by layer."""

    def __init__(self, names: Names, held: Held) -> None:
        self._names = names
        self._held = held
        self._example = held.example
        self._one = names.artifact.title()
        self._several = names.artifacts.title()

    def artifacts(self) -> ArtifactShapes:
        one, member = self._one, self._names.artifact
        roles = flags_taken(self._held.roles)
        create = model_of(f"{one}Create", "What is made.", ArtifactCreate, **roles)
        edit = model_of(f"{one}Edit", "What changes; what is absent stays.", ArtifactEdit, **roles)
        asked = model_of(f"{one}Asked", "What they have in common.", ArtifactAsked, **self._flags_asked)
        shown = model_of(
            one,
            "As it is shown.",
            Header,
            Lifecycle,
            **self._flags_shown(self._held.roles),
            folder_id=(UUID | None, None),
        )
        chosen_id = {
            f"{member}_id": (UUID | None, Field(None, description="Of what is made, if the caller chooses it."))
        }
        return ArtifactShapes(
            chosen_id=model_of(f"Chosen{one}Id", "The id, if the caller chooses it.", Loose, **chosen_id),
            create=wrapping(f"Create{one}", member, create, example=self._described()),
            edit=wrapping(f"Edit{one}", member, edit),
            question=self._question(f"{self._several}Question", member, asked, [self._names.artifact_ref]),
            parameters=self._parameters(f"{self._several}Parameters", member),
            one=answer_of_one(f"{one}Response", member, shown),
            several=answer_of_several(f"{self._several}Response", self._names.artifacts, shown),
        )

    def variants(self) -> VariantShapes:
        one, names = f"{self._one}Variant", self._names
        members = {**flags_taken(self._held.roles, _OF_PARENT), **ids_taken(names.artifact_members("id"))}
        create = model_of(f"{one}Create", "What is made.", VariantCreate, **members)
        asked = model_of(f"{one}Asked", "What they have in common.", Asked, **self._flags_asked)
        shown = self._shown_variant(one)
        other_way = {f"{names.variant}_id": (UUID | None, None)}
        return VariantShapes(
            create=wrapping(f"Create{one}", names.variant, create),
            edit=wrapping(f"Edit{one}", names.variant, EntityEdit),
            fork=self._fork(one),
            fork_parameters=model_of(f"Fork{one}Parameters", "Which one, another way to say it.", Loose, **other_way),
            question=self._question(f"{one}sQuestion", names.variant, asked, [names.artifact_ref, names.variant_ref]),
            parameters=self._parameters(f"{one}sParameters", names.artifact, names.variant),
            one=answer_of_one(f"{one}Response", names.variant, shown),
            several=answer_of_several(f"{one}sAnswer", names.variants, shown),
        )

    def revisions(self) -> RevisionShapes:
        one, names = f"{self._one}Revision", self._names
        target = {**ids_taken(names.variant_members("id")), **ids_taken(names.artifact_members("id"))}
        ids = {**ids_taken(names.revision_members("id")), **target}
        flags = flags_taken(self._held.flags, _DERIVED)
        create = model_of(f"{one}Create", "The first of its variant, without data.", RevisionCreate, **target, **flags)
        edit = model_of(f"{one}Edit", "What is written about it; what is absent is cleared.", EntityEdit, **flags)
        asked = model_of(f"{one}Asked", "What they have in common.", RevisionAsked, **target, **self._flags_asked)
        logged = model_of(
            f"{one}sLogged", "Back from a revision, else of a variant, else of the first there is.", LogAsked, **ids
        )
        revert = {names.revision: (RevisionRevert | None, None)}
        references = [names.artifact_ref, names.variant_ref, names.revision_ref]
        named: dict[str, Any] = {
            **references_taken(references),
            "resolve": (bool | None, Field(None, description=_RESOLVE)),
        }
        shown = self._shown_revision(one)
        answer = answer_of_one(f"{one}Response", names.revision, shown)
        return RevisionShapes(
            create=wrapping(f"Create{one}", names.revision, create),
            commit=self._commit(one, {**target, **flags}),
            edit=wrapping(f"Edit{one}", names.revision, edit),
            revert=model_of(f"Revert{one}", "How it is committed.", Loose, **revert),
            question=self._question(f"{one}sQuestion", names.revision, asked, references),
            parameters=self._parameters(f"{one}sParameters", names.artifact, names.variant, names.revision),
            log=model_of(f"Log{one}s", "Whose log.", LogQuestion, **{names.revisions: (logged, ...)}),
            retrieve=model_of(f"Retrieve{one}", "Which revision.", Strict, **named),
            one=answer,
            looked_at=answer,
            several=answer_of_several(f"{one}sAnswer", names.revisions, shown),
            retrieved=_retrieved(f"Retrieved{one}Response", answer),
        )

    def simple(self) -> SimpleShapes:
        one, member = f"Simple{self._one}", self._names.artifact
        flags = flags_taken(self._held.flags)
        taken: dict[str, Any] = {**flags, "data": (self._held.data | None, None)}
        create = model_of(f"{one}Create", "What is made, with what its first revision holds.", SimpleCreate, **taken)
        edit = model_of(f"{one}Edit", "What changes; anything but `id` makes a revision.", SimpleEdit, **taken)
        asked = model_of(f"{one}Asked", "What they have in common.", ArtifactAsked, **self._flags_asked)
        shown = model_of(
            one,
            "With what the newest revision of its first variant holds.",
            Header,
            Lifecycle,
            **self._flags_shown(self._held.flags),
            folder_id=(UUID | None, None),
            data=(self._held.data, ...),
            variant_id=(UUID, ...),
            revision_id=(UUID, ...),
        )
        return SimpleShapes(
            create=wrapping(f"Create{one}", member, create, example=self._described(data=self._example.data)),
            edit=wrapping(f"Edit{one}", member, edit),
            question=self._question(f"Simple{self._several}Question", member, asked, [self._names.artifact_ref]),
            one=answer_of_one(f"{one}Response", member, shown),
            several=answer_of_several(f"Simple{self._several}Response", self._names.artifacts, shown),
        )

    def _fork(self, one: str) -> Model:
        names = self._names
        flags = flags_taken(self._held.roles, _OF_PARENT)
        forked = model_of(f"{one}Fork", "The variant that a fork makes.", VariantCreate, **flags)
        cut = Field(None, description="The last revision to copy; the newest if absent.")
        members: dict[str, Any] = {
            names.variant: (forked, ...),
            names.variant_ref: (CreatingReference, Field(description="The variant to fork, by id or slug.")),
            names.revision_ref: (CreatingReference | None, cut),
        }
        example = {
            names.variant: {"slug": f"{self._example.slug}.experiment"},
            names.variant_ref: {"slug": f"{self._example.slug}.main"},
            names.revision_ref: {"version": "1"},
        }
        return model_of(f"Fork{one}", "A fork to be made.", with_example(example), **members)

    def _commit(self, one: str, members: dict[str, Any]) -> Model:
        whole = Field(None, description="All of it: nothing is taken over from the head.")
        change = Field(None, description="In place of `data`: what changes of the head's.")
        holding: dict[str, Any] = {"data": (self._held.data | None, whole), "delta": (self._held.delta | None, change)}
        commit = model_of(f"{one}Commit", "A new head of a variant.", RevisionCommit, **members, **holding)
        example = {f"{self._names.variant}_id": _EXAMPLE_ID, "message": "tighter", "data": self._example.data}
        return wrapping(f"Commit{one}", self._names.revision, commit, example=example)

    def _described(self, **more: Any) -> Mapping[str, Any]:
        """An example of what is made."""
        return {"slug": self._example.slug, "name": self._example.name, **more}

    def _question(self, name: str, member: str, asked: Model, references: Iterable[str]) -> Model:
        several = {f"{each}s": (Listed[ReferenceIn] | None, None) for each in references}
        return model_of(name, "Which ones.", Question, **{member: (asked | None, None)}, **several)

    def _parameters(self, name: str, *words: str) -> Model:
        return parameters_model(name, words, flags=self._held.asked_flags)

    def _flags_shown(self, model: type[FlagsIn]) -> dict[str, Any]:
        return flags_shown(model, always=self._held.always_shows_flags)

    @property
    def _flags_asked(self) -> dict[str, Any]:
        return flags_asked(self._held.asked_flags)

    def _shown_variant(self, one: str) -> Model:
        names = self._names
        return model_of(
            one,
            "As it is shown.",
            Header,
            Lifecycle,
            **ids_shown(names.artifact_members("id")),
            **slugs_shown(names.artifact_members("slug")),
            **self._flags_shown(self._held.roles),
            forked_from=(ForkedFrom | None, None),
        )

    def _shown_revision(self, one: str) -> Model:
        names = self._names
        return model_of(
            one,
            "As it is shown.",
            Header,
            Lifecycle,
            version=(str, Field(description='"0", "1", "2", … without a gap.')),
            **ids_shown(names.artifact_members("id")),
            **ids_shown(names.variant_members("id")),
            **slugs_shown((*names.artifact_members("slug"), *names.variant_members("slug"))),
            author=(UUID, ...),
            date=(datetime, ...),
            message=(str | None, None),
            **self._flags_shown(self._held.flags),
            data=(self._held.data | None, None),
        )


def _retrieved(name: str, answer: Model) -> Model:
    members: dict[str, Any] = {
        "resolution_info": (ResolutionInfo | None, Field(None, description="Where resolving was asked for.")),
        "retrieval_info": (RetrievalInfo | None, None),
    }
    return model_of(name, "The revision that was named, or none.", answer, **members)
