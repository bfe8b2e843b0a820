"""Which bodies and answers a kind has. ``shaping.py`` makes them of its words and of what its revisions hold.

Every kind takes and gives the same shapes under names of its own: ``query_variant`` here, ``environment_variant`` there. A kind
makes its ``Shapes`` once; where it takes or gives something else it puts a model of its own in place of one (``dataclasses.replace``).
``tests/golden/shapes`` spells out what that comes to, route by route. Source: reference ``applications-api`` §1.2, §4–§8,
``spans-api`` §9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel

from query_api.registry.bodies import AskedFlags, Delta, FlagsIn, RevisionData

Model: TypeAlias = type[BaseModel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What the examples of the document are about."""

    slug: str
    name: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the artifacts and revisions of a kind hold. ``FlagsIn`` itself: no flags."""

    data: type[RevisionData]
    delta: type[Delta] = Delta
    roles: type[FlagsIn] = FlagsIn
    """The flags of an artifact, which its variants show too."""

    flags: type[FlagsIn] = FlagsIn
    """The flags of a revision: the roles of its artifact, and those that follow from its data."""

    always_shows_flags: bool = True
    """Whether answers show flags that nobody set."""

    asked_flags: type[FlagsIn] = AskedFlags
    """All of these in a question, whichever layer it is about: the roles of the artifact, the others of a revision or the head."""

    example: Example


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactShapes:
    """Of artifacts. ``parameters`` is the question in the query string."""

    chosen_id: Model
    create: Model
    edit: Model
    question: Model
    parameters: Model
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
    parameters: Model
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
    parameters: Model
    log: Model
    retrieve: Model
    get_parameters: Model | None = None
    """What to tell besides of one that is looked at, where a kind takes that."""

    one: Model
    looked_at: Model
    """The answer to looking at one."""

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
