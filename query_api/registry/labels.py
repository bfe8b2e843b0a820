"""The names of each kind of history: member names on the wire, words in texts, tags in the document.

Models, handlers and the store use neutral names (``artifact``, ``variant_ref``, ``revision_id``). ``Labels``
translates them for one kind: ``application``, ``query_variant_ref``, ``environment_revision_id``. Ids and slugs have
several spellings, which all mean the same. Source: reference ``applications-api`` §1.2 and §6.2, ``spans-api`` §9.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from query_api.registry.values import Kind

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
