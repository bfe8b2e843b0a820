"""How the wire calls the layers of each kind: wrappers of bodies and answers, and the several spellings of one id.

Source: reference ``applications-api`` §1.2 and §6.2, ``spans-api`` §9.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from query_api.registry.values import Kind


@dataclass(frozen=True, slots=True)
class Names:
    """The words of one kind. ``spellings`` begin the members that say ids and slugs; the first is the kind's own."""

    kind: Kind
    artifact: str
    artifacts: str
    spellings: tuple[str, ...]

    @property
    def variant(self) -> str:
        """Wraps a variant: ``application_variant``."""
        return f"{self.artifact}_variant"

    @property
    def variants(self) -> str:
        """Wraps a page of variants."""
        return f"{self.artifact}_variants"

    @property
    def revision(self) -> str:
        """Wraps a revision."""
        return f"{self.artifact}_revision"

    @property
    def revisions(self) -> str:
        """Wraps a page of revisions."""
        return f"{self.artifact}_revisions"

    @property
    def artifact_ref(self) -> str:
        """A reference to an artifact: ``application_ref``; with an ``s``, several."""
        return f"{self.artifact}_ref"

    @property
    def variant_ref(self) -> str:
        """A reference to a variant."""
        return f"{self.variant}_ref"

    @property
    def revision_ref(self) -> str:
        """A reference to a revision."""
        return f"{self.revision}_ref"

    def artifact_members(self, suffix: str) -> tuple[str, ...]:
        """All spellings of a member about the artifact: ``application_id``, ``workflow_id``, ``artifact_id``."""
        return _spelt(self.spellings, "", suffix)

    def variant_members(self, suffix: str) -> tuple[str, ...]:
        """All spellings of a member about the variant: ``application_variant_id``, ``workflow_variant_id``, ``variant_id``."""
        return _spelt(self.spellings, "variant_", suffix)

    def revision_members(self, suffix: str) -> tuple[str, ...]:
        """All spellings of a member about a revision."""
        return _spelt(self.spellings, "revision_", suffix)


@cache  # a handful of them, asked for several times a request
def _spelt(spellings: tuple[str, ...], layer: str, suffix: str) -> tuple[str, ...]:
    return tuple(
        f"{layer}{suffix}" if layer and spelling == "artifact" else f"{spelling}_{layer}{suffix}"
        for spelling in spellings
    )


APPLICATIONS: Final = Names(Kind.APPLICATION, "application", "applications", ("application", "workflow", "artifact"))
QUERIES: Final = Names(Kind.QUERY, "query", "queries", ("query", "artifact"))
ENVIRONMENTS: Final = Names(Kind.ENVIRONMENT, "environment", "environments", ("environment", "artifact"))
