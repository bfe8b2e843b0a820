"""Queries for artifacts, variants and revisions: their models, and the SQL of their pages, which ``store.py`` runs.

Every query takes the same as parameters; the body wins, member by member. References in one list are alternatives;
lists narrow each other. Pages follow the order of ids, which are UUIDs of version 7 and so in the order of creation.
The id of the last row is the cursor. The statement contains every condition, so only the last page is short. Source:
reference ``applications-api`` §8, ``spans-api`` §9.2.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar
from uuid import UUID

from pydantic import BeforeValidator, Field, Json

from common.errors import InvalidInput
from common.limits import MIB
from query_api.registry.kinds import (
    FlagsFilter,
    IdWindowing,
    Labels,
    Mark,
    Meta,
    Moment,
    PerKind,
    SpelledId,
    Tags,
    json_text,
    storable_json,
)
from query_api.registry.values import wanted_number
from query_api.request.json_body import Listed, Strict
from query_api.request.references import NamedSlug, Reference, ReferenceIn, Text
from query_api.spans.windowing import Order

_PART: Final = "Text that it contains; case is ignored."

_Ids: TypeAlias = Annotated[list[UUID], Mark.OWN_NAME]
_Slugs: TypeAlias = Annotated[list[NamedSlug], Mark.OWN_NAME]
_Versions: TypeAlias = Annotated[list[Text], Mark.OWN_NAME]


class EntityFilter(Strict, PerKind):
    """Conditions on the rows to return; all given members must match."""

    slug: Text | None = None
    slugs: Listed[Text] | None = Field(None, description="The row has `slug` or one of these slugs.")
    name: Text | None = Field(None, description=_PART)
    description: Text | None = Field(None, description=_PART)
    tags: Tags | None = Field(None, description="Tags of the row; it may have more.")
    meta: Meta | None = Field(None, description="Metadata of the row; it may have more.")
    flags: FlagsFilter | None = None


class ArtifactFilter(EntityFilter):
    """Conditions on the artifacts to return; all given members must match."""

    folder_id: UUID | None = Field(None, description="`null` selects artifacts that are in no folder.")


class RevisionFilter(EntityFilter):
    """Conditions on the revisions to return; all given members must match."""

    version: Text | None = None
    message: Text | None = Field(None, description=_PART)
    author: UUID | None = None
    authors: Listed[UUID] | None = None
    date: Moment | None = None
    dates: Listed[Moment] | None = None
    variant_id: SpelledId = None
    artifact_id: SpelledId = None


class EntityQuery(Strict, PerKind):
    """Selects rows of one layer."""

    include_archived: bool | None = None
    windowing: IdWindowing | None = None
    filter: EntityFilter | None = None
    artifact_refs: Listed[ReferenceIn] | None = None


class QueryArtifacts(EntityQuery):
    """Selects artifacts."""

    filter: ArtifactFilter | None = Field(None, alias="artifact")


class QueryVariants(EntityQuery):
    """Selects variants."""

    filter: EntityFilter | None = Field(None, alias="variant")
    variant_refs: Listed[ReferenceIn] | None = None


class QueryRevisions(QueryVariants):
    """Selects revisions."""

    filter: RevisionFilter | None = Field(None, alias="revision")
    revision_refs: Listed[ReferenceIn] | None = None


class ArtifactParameters(Strict, PerKind):
    """The members of the body as query parameters; the body takes precedence."""

    layers: ClassVar[tuple[str, ...]] = ("artifact",)
    """The layers that the parameters refer to."""

    name: Text | None = None
    description: Text | None = None
    tags: Json[Tags] | None = Field(None, description="A JSON object.")
    meta: Json[Meta] | None = Field(None, description="A JSON object.")
    flags: Json[Annotated[FlagsFilter, BeforeValidator(storable_json)]] | None = Field(
        None, description="A JSON object."
    )
    include_archived: bool | None = None
    next: UUID | None = Field(None, description="The id of the last row of the previous page.")
    newest: Moment | None = None
    oldest: Moment | None = None
    limit: int | None = None
    order: Order | None = None
    artifact_id: _Ids = Field([])
    artifact_ids: _Ids = Field([])
    artifact_slug: _Slugs = Field([])
    artifact_slugs: _Slugs = Field([])


class VariantParameters(ArtifactParameters):
    """The members of the body as query parameters; the body takes precedence."""

    layers: ClassVar[tuple[str, ...]] = ("artifact", "variant")
    variant_id: _Ids = Field([])
    variant_ids: _Ids = Field([])
    variant_slug: _Slugs = Field([])
    variant_slugs: _Slugs = Field([])


class RevisionParameters(VariantParameters):
    """The members of the body as query parameters; the body takes precedence."""

    layers: ClassVar[tuple[str, ...]] = ("artifact", "variant", "revision")
    revision_id: _Ids = Field([])
    revision_ids: _Ids = Field([])
    revision_slug: _Slugs = Field([])
    revision_slugs: _Slugs = Field([])
    revision_version: _Versions = Field([])
    revision_versions: _Versions = Field([])


Query = TypeVar("Query", bound=EntityQuery)


def with_parameters(query: Query, parameters: ArtifactParameters | None) -> Query:
    """Return the query, with the parameters as values of the members that it lacks.

    Without a parameter for the window there is no window: all rows are returned, oldest first.
    """
    if parameters is None:
        return query
    given: dict[str, Any] = {
        "filter": _given(EntityFilter, parameters, "name", "description", "tags", "meta", "flags"),
        "windowing": _given(IdWindowing, parameters, "next", "newest", "oldest", "limit", "order"),
        "include_archived": parameters.include_archived,
        **{f"{layer}_refs": _references(parameters, layer) for layer in parameters.layers},
    }
    return query.model_copy(update={name: value for name, value in given.items() if getattr(query, name) is None})


def refuse_versions(labels: Labels, query: EntityQuery) -> None:
    """Raise ``InvalidInput`` for a reference to an artifact or a variant that has only a version."""
    for member in ("artifact_refs", "variant_refs"):
        for index, sent in enumerate(getattr(query, member, None) or ()):
            if sent.version is not None and not sent.value().identifies:
                raise InvalidInput(
                    f"{labels.own_name(member)}[{index}]: only revisions have a version; give an id or a slug."
                )


def _given(model: type[EntityFilter] | type[IdWindowing], parameters: ArtifactParameters, *names: str) -> Any:
    """Return a model of the parameters that are given; ``None`` if there are none."""
    members = {name: value for name in names if (value := getattr(parameters, name)) is not None}
    return model(**members) if members else None


def _references(parameters: ArtifactParameters, layer: str) -> list[ReferenceIn] | None:
    """Return the ids and slugs of a layer as alternative references, each with every version."""
    ids, slugs, versions = (
        [*getattr(parameters, f"{layer}_{member}", ()), *getattr(parameters, f"{layer}_{member}s", ())]
        for member in ("id", "slug", "version")
    )
    named: list[dict[str, Any]] = [*({"id": id_} for id_ in ids), *({"slug": slug} for slug in slugs)]
    if versions:
        named = [{**reference, "version": version} for reference in named or [{}] for version in versions]
    return [ReferenceIn(**reference) for reference in named] or None


BYTES_MAX: Final = 64 * MIB
"""The largest response, which is in memory about three times: six revisions of the largest body, or 6,000 of 10 KB."""

ROW_BYTES: Final = 1_000
"""The size of a row without what people wrote: ids, times, flags, and the names of members."""

LIMIT_MAX: Final = 2**31 - 1
"""The largest limit of a statement."""

_WRITTEN: Final = ("name", "description", "tags", "meta", "message", "data")
"""The columns that may be large."""


def columns_of(layer: type) -> str:
    """Return the columns of a layer's rows, which are the fields of its class."""
    return ", ".join(field.name for field in fields(layer))


def page_statement(
    layer: type, rows: str, query: EntityQuery, *, scope: tuple[UUID, str], role: str | None = None, bytes_max: int
) -> tuple[str, list[object]]:
    """Return the bounded statement of a page, and its arguments. ``rows`` selects all rows of the layer; with ``role``
    those of artifacts that have this flag.
    """
    windowing = query.windowing or IdWindowing(order=Order.ASCENDING)
    is_descending = windowing.order is not Order.ASCENDING
    where = _Where("project_id = $1", "kind = $2", arguments=list(scope))
    if role is not None:  # as a literal: partial indexes are used only then
        where.add(f"artifact_flags @> '{{{{\"{role}\": true}}}}'")
    _add_query(where, query)
    _add_window(where, windowing, is_descending=is_descending)
    order = "id DESC" if is_descending else "id ASC"
    limit = "" if windowing.limit is None else f"\nLIMIT {where.place(max(1, min(windowing.limit, LIMIT_MAX)))}"
    sql = f"SELECT {columns_of(layer)}\nFROM ({rows}) AS entity\nWHERE {where.text}\nORDER BY {order}{limit}"
    return bounded_statement(layer, sql, order=order, bytes_max=where.place(bytes_max)), where.arguments


def bounded_statement(layer: type, statement: str, *, order: str, bytes_max: str) -> str:
    """Return ``statement``, cut after the first row with which the rows are larger than ``bytes_max``.

    ``bytes_max`` is a placeholder like ``$3``. Rows have a column ``bytes_count``. ``order`` is the order of the
    statement.
    """
    written = [field.name for field in fields(layer) if field.name in _WRITTEN]
    size = " + ".join([f"{ROW_BYTES}::bigint", *(f"coalesce(octet_length({name}::text), 0)" for name in written)])
    return f"""SELECT {columns_of(layer)}, bytes_count
FROM (
    SELECT *, sum(bytes_count) OVER (ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM (SELECT *, {size} AS bytes_count FROM ({statement}) AS found OFFSET 0) AS measured) AS added_up
WHERE coalesce(bytes_before, 0) <= {bytes_max}::bigint
ORDER BY {order}"""


class _Where:
    """Conditions and their arguments."""

    def __init__(self, *clauses: str, arguments: list[object]) -> None:
        self._clauses = list(clauses)
        self.arguments = arguments

    @property
    def text(self) -> str:
        return "\n    AND ".join(self._clauses)

    def place(self, value: object) -> str:
        """Add an argument and return its placeholder, ``$n``."""
        self.arguments.append(value)
        return f"${len(self.arguments)}"

    def add(self, clause: str, *values: Any) -> None:
        """Add a condition; each ``{}`` in it becomes the placeholder of a value."""
        self._clauses.append(clause.format(*(self.place(value) for value in values)))

    def add_given(self, clause: str, value: Any) -> None:
        """Add a condition unless ``value`` is ``None``."""
        if value is not None:
            self.add(clause, value)


def _add_query(where: _Where, query: EntityQuery) -> None:
    if not query.include_archived:
        where.add("deleted_at IS NULL")
    if query.filter is not None:
        _add_filter(where, query.filter)
    _add_references(where, query.artifact_refs, id_column="artifact_id", slug_column="artifact_slug")
    if isinstance(query, QueryVariants):
        _add_references(where, query.variant_refs, id_column="variant_id", slug_column="variant_slug")
    if isinstance(query, QueryRevisions):
        _add_references(where, query.revision_refs, id_column="id", slug_column="slug")


def _add_filter(where: _Where, sent: EntityFilter) -> None:
    where.add_given("slug = ANY({}::text[])", _either(sent.slug, sent.slugs))
    _add_part_of_text(where, "name", sent.name)
    _add_part_of_text(where, "description", sent.description)
    if sent.tags:  # an empty object selects rows without tags too
        where.add("tags @> {}::jsonb", json_text(sent.tags))
    if sent.meta:
        where.add("meta::jsonb @> {}::jsonb", json_text(sent.meta))
    if sent.flags is not None:
        of_artifact, of_revision = sent.flags.conditions()
        _add_flags(where, "artifact_flags", of_artifact)
        _add_flags(where, "revision_flags", of_revision)
    if isinstance(sent, ArtifactFilter) and "folder_id" in sent.model_fields_set:
        where.add("folder_id IS NOT DISTINCT FROM {}::uuid", sent.folder_id)
    if isinstance(sent, RevisionFilter):
        _add_part_of_text(where, "message", sent.message)
        where.add_given("created_by = ANY({}::uuid[])", _either(sent.author, sent.authors))
        where.add_given("created_at = ANY({}::timestamptz[])", _either(sent.date, sent.dates))
        where.add_given("version = {}::integer", wanted_number(sent.version))
        where.add_given("artifact_id = {}::uuid", sent.artifact_id)
        where.add_given("variant_id = {}::uuid", sent.variant_id)


def _either(one: Any, several: Sequence[Any] | None) -> list[Any] | None:
    """Return one value and several as one list; ``None`` if neither is given."""
    ones = [] if one is None else [one]
    return None if one is None and several is None else [*ones, *(several or ())]


def _add_part_of_text(where: _Where, column: str, part: str | None) -> None:
    """Add the condition that a text contains ``part``; case is ignored."""
    where.add_given(f"position(lower({{}}::text) IN lower({column})) > 0", part)


def _add_flags(where: _Where, column: str, wanted: str | None) -> None:
    """Add a condition on flags. A flag that was never set is false."""
    if wanted is not None:
        unset = json.dumps(dict.fromkeys(json.loads(wanted), False))
        where.add(f"({{}}::jsonb || coalesce({column}, '{{{{}}}}')) @> {{}}::jsonb", unset, wanted)


def _add_references(where: _Where, sent: Sequence[ReferenceIn] | None, *, id_column: str, slug_column: str) -> None:
    """Add the condition that a row has the id or the slug of one of some references; empty ones are no condition.

    A version narrows its reference, if the references are to revisions.
    """
    given = [reference for reference in sent or () if reference.value() != Reference()]
    if not given:
        return
    ids, slugs = [reference.id for reference in given], [reference.slug for reference in given]
    versions = [wanted_number(reference.version) for reference in given] if id_column == "id" else []
    if all(version is None for version in versions):
        where.add(f"({id_column} = ANY({{}}::uuid[]) OR {slug_column} = ANY({{}}::text[]))", ids, slugs)
        return
    clause = f"""EXISTS (
        SELECT FROM unnest({{}}::uuid[], {{}}::text[], {{}}::integer[]) AS named (id, slug, version)
        WHERE (entity.{id_column} = named.id OR entity.{slug_column} = named.slug
                OR coalesce(named.id::text, named.slug) IS NULL)
            AND coalesce(entity.version = named.version, true))"""
    where.add(clause, ids, slugs, versions)


def _add_window(where: _Where, windowing: IdWindowing, *, is_descending: bool) -> None:
    """Add the bounds of a page. The first bound in its order is exclusive, but includes the time of a cursor."""
    loose = "=" if windowing.next is not None else ""
    if is_descending:
        where.add_given("id < {}", windowing.next)
        where.add_given(f"created_at <{loose} {{}}", windowing.newest)
        where.add_given("created_at >= {}", windowing.oldest)
    else:
        where.add_given("id > {}", windowing.next)
        where.add_given(f"created_at >{loose} {{}}", windowing.oldest)
        where.add_given("created_at <= {}", windowing.newest)
