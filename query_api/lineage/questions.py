"""From the body of a question about artifacts, variants or revisions to what is searched for. Pure.

Source: reference ``applications-api`` §8. References of one list are alternatives, by id or by slug; lists narrow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from query_api.lineage.bodies import Asked, Question
from query_api.lineage.history import History
from query_api.lineage.models import ReferenceIn, id_window, json_text
from query_api.lineage.pages import IdWindow, Named, Search


def search_of(history: History, question: Question, *, layer: str) -> Search:
    """What a question about ``layer`` (the member of the body that says what rows have in common) searches for."""
    names = history.names
    asked: Asked | None = getattr(question, layer, None)
    flags = history.asked_flags(asked.flags.given() if asked is not None and asked.flags is not None else {})
    return Search(
        **_of_rows(asked),
        role_flags=flags.of_artifact,
        revision_flags=flags.of_revision,
        artifacts=_named(getattr(question, f"{names.artifact_ref}s", None)),
        variants=_named(getattr(question, f"{names.variant_ref}s", None)),
        revisions=_named(getattr(question, f"{names.revision_ref}s", None)),
        includes_archived=bool(question.include_archived),
    )


def window_of(question: Question) -> IdWindow:
    """The page that a question asks for."""
    return id_window(question.windowing)


def _of_rows(asked: Asked | None) -> dict[str, Any]:
    if asked is None:
        return {}
    return {
        "slugs": _either(asked.slug, asked.slugs),
        "name": asked.name,
        "description": asked.description,
        "message": getattr(asked, "message", None),
        "tags": json_text(asked.tags or None),  # an empty object asks nothing, also of rows that have none
        "meta": json_text(asked.meta or None),
        "folder_id": (getattr(asked, "folder_id", None),) if "folder_id" in asked.model_fields_set else None,
        "authors": _either(getattr(asked, "author", None), getattr(asked, "authors", None)),
        "dates": _either(getattr(asked, "date", None), getattr(asked, "dates", None)),
    }


def _either(one: Any, several: Sequence[Any] | None) -> tuple[Any, ...] | None:
    """One value and several are one list; ``None`` where neither is given."""
    if one is None and several is None:
        return None
    return (*([one] if one is not None else []), *(several or []))


def _named(references: Sequence[ReferenceIn] | None) -> Named | None:
    """Nothing is asked by no references, nor by empty ones."""
    given = [reference for reference in references or () if reference.value().identifies]
    if not given:
        return None
    return Named(
        ids=tuple(reference.id for reference in given if reference.id is not None),
        slugs=tuple(reference.slug for reference in given if reference.slug is not None),
    )
