"""From the body of a question about artifacts, variants or revisions to what is searched for. Pure.

Source: reference ``applications-api`` §8. References of one list are alternatives, by id or by slug; lists narrow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common.errors import InvalidInput
from query_api.registry.bodies import Asked, Question
from query_api.registry.history import History, first_given
from query_api.registry.models import id_window, json_text
from query_api.registry.pages import IdWindow, Named, Search
from query_api.registry.references import wanted_number
from query_api.request.references import Reference, ReferenceIn


def search_of(history: History, question: Question, *, layer: str) -> Search:
    """What a question about ``layer`` (the member of the body that says what rows have in common) searches for."""
    names = history.names
    asked: Asked | None = getattr(question, layer, None)
    flags = history.asked_flags(asked.flags.given() if asked is not None and asked.flags is not None else {})
    return Search(
        **_of_rows(asked),
        role_flags=flags.of_artifact,
        revision_flags=flags.of_revision,
        artifact_id=first_given(asked, names.artifact_members("id")),
        variant_id=first_given(asked, names.variant_members("id")),
        artifacts=_named(question, f"{names.artifact_ref}s"),
        variants=_named(question, f"{names.variant_ref}s"),
        revisions=_named(question, f"{names.revision_ref}s", has_versions=True),
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
        "version": wanted_number(getattr(asked, "version", None)),
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


def _named(question: Question, member: str, *, has_versions: bool = False) -> Named | None:
    """Nothing is asked by no references, nor by empty ones. Raises ``InvalidInput`` for a version of what has none."""
    references: Sequence[ReferenceIn] = getattr(question, member, None) or ()
    for index, each in enumerate(references):
        if each.version is not None and not has_versions and not each.value().identifies:
            raise InvalidInput(f"{member}[{index}]: only revisions have a version; give an id or a slug.")
    given = [each for each in references if each.value() != Reference()]
    if not given:
        return None
    versions = [wanted_number(each.version) for each in given] if has_versions else []
    return Named(
        ids=tuple(each.id for each in given),
        slugs=tuple(each.slug for each in given),
        versions=tuple(versions) if any(version is not None for version in versions) else (),
    )
