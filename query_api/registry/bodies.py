"""What the bodies of every kind share: what is created, edited, committed and asked for.

A kind's own models add its spellings of ids, its flags and its data, and wrap them under its words. Members have the names that
they have on the wire; handlers that serve every kind find them by ``Names``.

Source: reference ``applications-api`` §4–§8.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

from pydantic import Field, PrivateAttr

from query_api.registry.models import HeaderIn, IdWindowing, Loose, Meta, Moment, Slug, Tags, json_text
from query_api.request.body_models import Listed, Strict
from query_api.request.references import Text

_NO_LOG_OF_ARCHIVED: Final = "No effect: a log holds live revisions."

Json: TypeAlias = dict[str, Any]
Path = Annotated[Text, Field(min_length=1)]


class FlagsIn(Loose):
    """Flags of a kind; what it does not know is ignored."""

    def given(self) -> Mapping[str, bool]:
        """Those that were sent, by their names."""
        return self.model_dump(exclude_none=True)


class AskedFlags(FlagsIn, Strict):
    """Flags in a question, of a kind that has none: an unknown flag is refused."""


class RevisionData(Strict):
    """What a revision holds. Unknown members are refused: a typo would be lost in silence."""

    _text: str = PrivateAttr("{}")

    def model_post_init(self, _context: Any, /) -> None:
        """Write the text where the data is validated: for a large body that is another process."""
        self._text = json_text(self.model_dump(mode="json", by_alias=True, exclude_none=True)) or "{}"

    def text(self) -> str:
        """As it is stored: without the members that are null."""
        return self._text


class ArtifactCreate(HeaderIn):
    """A new artifact."""

    slug: Slug = Field(description="Unique in the project, archived ones included. Never changes.")
    flags: FlagsIn | None = None


class ArtifactEdit(HeaderIn):
    """What changes of an artifact; what is absent stays."""

    id: UUID | None = Field(None, description="The same as in the path.")
    flags: FlagsIn | None = None
    folder_id: UUID | None = None


class VariantCreate(HeaderIn):
    """A new variant."""

    slug: Slug = Field(description="Unique in the project, archived ones included. Never changes.")


class EntityEdit(HeaderIn):
    """What is written about a variant or a revision, as a whole: what is absent is cleared."""

    id: UUID | None = Field(None, description="The same as in the path.")


class RevisionCreate(HeaderIn):
    """A revision to be made."""

    slug: Slug | None = Field(None, description="Unique in the project; made up if absent.")


class Delta(Strict):
    """A change of the head's data."""

    set: Meta | None = Field(None, description="Merged in: objects member by member, everything else replaced.")
    remove: Listed[Path] | None = Field(None, description="Dotted paths that go, after the merge.")


class RevisionCommit(RevisionCreate):
    """A commit."""

    message: Text | None = None
    data: RevisionData | None = Field(None, description="All of it: nothing is taken over from the head.")
    delta: Delta | None = Field(None, description="In place of `data`: what changes of the head's.")
    base_revision_id: UUID | None = Field(None, description="Refuse the commit (409) unless this is the head.")


class RevisionRevert(Loose):
    """How a revert is committed."""

    slug: Slug | None = None
    message: Text | None = None
    base_revision_id: UUID | None = Field(None, description="Refuse the commit (409) unless this is the head.")


class SimpleCreate(ArtifactCreate):
    """An artifact with what its first revision holds."""

    data: RevisionData | None = None


class SimpleEdit(ArtifactEdit):
    """What changes; anything but `id` makes a revision."""

    data: RevisionData | None = None


class Asked(Strict):
    """What rows have in common; each member that is given must fit."""

    slug: Text | None = None
    slugs: Listed[Text] | None = Field(None, description="One of them, or `slug`.")
    name: Text | None = Field(None, description="A part of it, without case.")
    description: Text | None = Field(None, description="A part of it, without case.")
    tags: Tags | None = Field(None, description="All of these.")
    meta: Meta | None = Field(None, description="All of this.")
    flags: AskedFlags | None = None


class ArtifactAsked(Asked):
    """What artifacts have in common."""

    folder_id: UUID | None = Field(None, description="`null` asks for those in no folder.")


class RevisionAsked(Asked):
    """What revisions have in common."""

    version: Text | None = None
    message: Text | None = Field(None, description="A part of it, without case.")
    author: UUID | None = None
    authors: Listed[UUID] | None = None
    date: Moment | None = None
    dates: Listed[Moment] | None = None


class Question(Strict):
    """What every question may say. A kind adds what is asked of the rows, and the references, under its own names."""

    include_archived: bool | None = None
    windowing: IdWindowing | None = None


class LogAsked(Strict):
    """Whose log. A kind adds the ids of a revision, a variant or an artifact: the first of these that is given counts."""

    include_archived: bool | None = Field(None, description=_NO_LOG_OF_ARCHIVED)

    depth: int | None = Field(
        None, description="So many entries at most, the newest first; all if absent, up to 64 MiB."
    )


class LogQuestion(Strict):
    """A question for a log. A kind adds whose log it is, under its own name."""

    include_archived: bool | None = Field(None, description=_NO_LOG_OF_ARCHIVED)


class ErrorPolicy(StrEnum):
    """What becomes of an embedded reference that has no value."""

    EXCEPTION = "exception"
    PLACEHOLDER = "placeholder"
    KEEP = "keep"


class ResolveQuestion(Strict):
    """How embedded references are resolved. A kind adds what holds them."""

    max_depth: int | None = Field(
        None,
        ge=0,
        description="Levels of embedded references: one that another embeds is a level deeper. 10 if absent.",
    )
    max_embeds: int | None = Field(
        None,
        ge=0,
        description="How many embedded references may be resolved, counting every occurrence. 100 if absent.",
    )
    error_policy: ErrorPolicy | None = Field(
        None,
        description="If a reference has no value: `exception`, the default, answers 400; `placeholder` puts a text in its place; `keep` leaves it."
        " The last two report it in `errors`.",
    )
