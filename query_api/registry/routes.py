"""The routes that every kind of history has, layer by layer. What a kind has besides stands in a table of its own.

Source: reference ``applications-api`` §4–§8, ``spans-api`` §9; diff and revert are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from query_api.registry.answered import DiffResponse
from query_api.registry.handlers import HistoryHandlers
from query_api.registry.models import DiffParameters
from query_api.registry.names import Names
from query_api.registry.shapes import Shapes
from query_api.request.route import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How people call a kind: in summaries, and as the tag of its routes."""

    one: str
    """With its article: ``an application``."""

    several: str
    tag: str
    """With a capital: ``Query``; layers below add theirs."""

    tags: str


def history_routes(names: Names, words: Words, *, handlers: HistoryHandlers, shapes: Shapes) -> tuple[Route, ...]:
    """All of them: artifacts, variants, revisions, and the simple ones."""
    return (
        *_artifacts(names, words, handlers, shapes),
        *_variants(names, words, handlers, shapes),
        *_revisions(names, words, handlers, shapes),
        *_simple(names, words, handlers, shapes),
    )


# fmt: off
def _artifacts(names: Names, words: Words, handlers: HistoryHandlers, shapes: Shapes) -> tuple[Route, ...]:
    all_of, one_of = f"/{names.artifacts}", f"/{names.artifacts}/{{{names.artifact}_id}}"
    routes, models, tag = handlers.artifacts, shapes.artifacts, words.tags
    return (
        Route("POST", all_of, routes.create, f"Create {words.one}", tag, models.one,
              body=models.create, body_required=True, query=models.chosen_id, ignores_unknown=True),
        Route("POST", f"{all_of}/query", routes.query, f"Ask for {words.several}", tag, models.several,
              body=models.question, query=models.parameters),
        Route("GET",  one_of, routes.get, f"Look at {words.one}", tag, models.one),
        Route("PUT",  one_of, routes.edit, f"Change {words.one}", tag, models.one, body=models.edit, body_required=True, ignores_unknown=True),
        Route("POST", f"{one_of}/archive", routes.archive, f"Archive {words.one}", tag, models.one),
        Route("POST", f"{one_of}/unarchive", routes.unarchive, f"Bring back {words.one}", tag, models.one),
    )


def _variants(names: Names, words: Words, handlers: HistoryHandlers, shapes: Shapes) -> tuple[Route, ...]:
    all_of, one_of = f"/{names.artifacts}/variants", f"/{names.artifacts}/variants/{{{names.variant}_id}}"
    routes, models, tag = handlers.variants, shapes.variants, f"{words.tag} variants"
    return (
        Route("POST", all_of, routes.create, f"Create a variant of {words.one}", tag, models.one,
              body=models.create, body_required=True, ignores_unknown=True),
        Route("POST", f"{all_of}/query", routes.query, f"Ask for variants of {words.several}", tag, models.several,
              body=models.question, query=models.parameters),
        Route("POST", f"{all_of}/fork", routes.fork, "Fork a variant", tag, models.one,
              body=models.fork, body_required=True, query=models.fork_parameters, ignores_unknown=True),
        Route("GET",  one_of, routes.get, "Look at a variant", tag, models.one),
        Route("PUT",  one_of, routes.edit, "Change what is written about a variant", tag, models.one,
              body=models.edit, body_required=True, ignores_unknown=True),
        Route("POST", f"{one_of}/archive", routes.archive, "Archive a variant", tag, models.one),
        Route("POST", f"{one_of}/unarchive", routes.unarchive, "Bring a variant back", tag, models.one),
    )


def _revisions(names: Names, words: Words, handlers: HistoryHandlers, shapes: Shapes) -> tuple[Route, ...]:
    all_of, one_of = f"/{names.artifacts}/revisions", f"/{names.artifacts}/revisions/{{{names.revision}_id}}"
    routes, models, tag = handlers.revisions, shapes.revisions, f"{words.tag} revisions"
    return (
        Route("POST", all_of, routes.create, "Create the first revision", tag, models.one,
              body=models.create, body_required=True, ignores_unknown=True),
        Route("POST", f"{all_of}/commit", routes.commit, "Commit a revision", tag, models.one,
              body=models.commit, body_required=True, ignores_unknown=True),
        Route("POST", f"{all_of}/query", routes.query, f"Ask for revisions of {words.several}", tag, models.several,
              body=models.question, query=models.parameters),
        Route("POST", f"{all_of}/log", routes.log, "The history of a variant", tag, models.several,
              body=models.log, body_required=True),
        Route("POST", f"{all_of}/retrieve", routes.retrieve, "The revision that references name", tag, models.retrieved,
              body=models.retrieve),
        Route("GET",  f"{all_of}/diff", routes.diff, "What differs between two revisions", tag, DiffResponse, query=DiffParameters),
        Route("GET",  one_of, routes.get, "Look at a revision", tag, models.looked_at, query=models.get_parameters),
        Route("PUT",  one_of, routes.edit, "Change what is written about a revision", tag, models.one,
              body=models.edit, body_required=True, ignores_unknown=True),
        Route("POST", f"{one_of}/archive", routes.archive, "Archive a revision", tag, models.one),
        Route("POST", f"{one_of}/unarchive", routes.unarchive, "Bring a revision back", tag, models.one),
        Route("POST", f"{one_of}/revert", routes.revert, "Commit an older revision again", tag, models.one, body=models.revert,
              ignores_unknown=True),
    )


def _simple(names: Names, words: Words, handlers: HistoryHandlers, shapes: Shapes) -> tuple[Route, ...]:
    all_of, one_of = f"/simple/{names.artifacts}", f"/simple/{names.artifacts}/{{{names.artifact}_id}}"
    routes, models, tag = handlers.simple, shapes.simple, f"Simple {words.tags.lower()}"
    return (
        Route("POST", all_of, routes.create, f"Create {words.one} with what it holds", tag, models.one,
              body=models.create, body_required=True, query=shapes.artifacts.chosen_id, ignores_unknown=True),
        Route("POST", f"{all_of}/query", routes.query, f"Ask for {words.several} and what they hold", tag, models.several,
              body=models.question, query=shapes.artifacts.parameters),
        Route("GET",  one_of, routes.get, f"Look at {words.one} and what it holds", tag, models.one),
        Route("PUT",  one_of, routes.edit, f"Change {words.one} or what it holds", tag, models.one,
              body=models.edit, body_required=True, ignores_unknown=True),
        Route("POST", f"{one_of}/archive", routes.archive, f"Archive {words.one}", tag, models.one),
        Route("POST", f"{one_of}/unarchive", routes.unarchive, f"Bring back {words.one}", tag, models.one),
    )
# fmt: on
