"""What somebody sends who knows everything of another project: plausible requests for any route, made from its models.

Nothing here knows the routes. A member is filled by its name and its model: ids, references, slugs and cursors are those that are
``Known``; what a model requires besides is filled with something valid. Several ways to ask are tried on every route.
"""

from __future__ import annotations

import re
import secrets
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Union, get_args, get_origin
from urllib.parse import quote
from uuid import UUID, uuid4, uuid5

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from query_api.request.route import Route
from query_api.spans.window import write_cursor

_PLACE: Final = re.compile(r"\{(\w+)\}")

_RANDOM: Final = [
    re.compile(pattern)
    for pattern in (
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        r"[0-9A-Za-z_-]{8}\.[0-9a-f]{64}",
        r"whsec_[0-9A-Za-z+/=]+",
        r"[0-9A-Za-z_-]{40,}",
        r"\b[0-9a-f]{12,64}\b",
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|\+00:00)",
        r"'Date': '[^']*'",
        r'"prefix":"[\w-]{8}"',
    )
]
"""Ids, keys, secrets, cursors and times."""

_REQUIRED: Final = {
    "target": {"kind": "kafka", "bootstrap": "127.0.0.1:1", "topic": "out"},
    "from_": "beginning",
    "measure": {"of": "count"},
    "window": "1m",
    "every": "1m",
    "rules": [{"value": "mine", "action": "drop"}],
    "scopes": ["read"],
}
"""Valid values of members that are required and have several forms."""


class How(StrEnum):
    """A way to ask for what is not one's own."""

    EVERYTHING = "everything"
    BY_ID = "by id"
    BY_SLUG = "by slug"
    BY_CURSOR = "by cursor"
    AS_FEED = "as feed"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the project."""

    project_id: UUID
    traces: Sequence[tuple[str, str]]
    """Trace ids, each with the id of a span."""

    entities: Mapping[str, Mapping[str, str]]
    """``id``, ``slug`` and ``version`` by the words that references use: ``application_variant``."""

    cursor: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request."""

    method: str
    path: str
    parameters: Sequence[tuple[str, str]]
    body: Any

    def sends(self, text: str) -> bool:
        """Whether a text is part of the request, so that an answer may repeat it."""
        return text in f"{self.path} {self.parameters} {self.body}"


def nowhere(known: Known) -> Known:
    """Return what looks like ``known`` and exists in no project. One trace has a known id, and another span."""
    (trace_id, _), *others = known.traces
    texts = _texts(known)
    return Known(
        UUID(texts[str(known.project_id)]),
        [(trace_id, secrets.token_hex(8)), *((secrets.token_hex(16), secrets.token_hex(8)) for _ in others)],
        {name: {member: texts[text] for member, text in entity.items()} for name, entity in known.entities.items()},
        write_cursor(b"position", scope=bytes(16), secret=b"secret"),
    )


def _texts(known: Known) -> dict[str, str]:
    """Return a text of the same form for each id and slug, always the same."""
    texts = [str(known.project_id), *(text for entity in known.entities.values() for text in entity.values())]
    return {text: _like(text) for text in texts}


def _like(text: str) -> str:
    try:
        return str(uuid5(UUID(text), "nowhere"))
    except ValueError:
        return text.replace("owner", "nobod") if "owner" in text else text[::-1]


def shape(response: str, known: Known) -> str:
    """Return a response without ids, times and random texts: those of two requests differ anyway."""
    for text, other in _texts(known).items():
        response = response.replace(other, text)
    for pattern in _RANDOM:
        response = pattern.sub("…", response)
    return response


def attempts(route: Route, known: Known) -> Iterator[Attempt]:
    """Requests to a route, each once."""
    made = []
    for how in How:
        for trace in range(len(known.traces)):
            attempt = _attempt(route, _Filling(known, how, trace, route.path))
            if attempt not in made:
                made.append(attempt)
                yield attempt


def chooses_an_id(route: Route) -> bool:
    """Whether the caller may choose the id of what a route makes: with a known one it is theirs, and says so from then on."""
    if route.query is None:
        return False
    sent = [field.alias or name for name, field in route.query.model_fields.items()]
    return sent == [f"{_kind(route.path)}_id"]


def _attempt(route: Route, filling: _Filling) -> Attempt:
    path = _PLACE.sub(lambda place: quote(filling.text(place[1])), route.path)
    parameters = [] if route.query is None else _parameters(filling.members(route.query, layer=""))
    if filling.how is How.BY_ID:
        parameters.append(("project_id", str(filling.known.project_id)))
    body = None if route.body is None else filling.members(route.body, layer="")
    return Attempt(route.method, path, parameters, body)


def _parameters(members: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = [
        (name, value)
        for name, values in members.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    return [(name, value) for name, value in pairs if isinstance(value, str)]


def _kind(path: str) -> str:
    """The word of the history that a path is about."""
    words = {
        "applications": "application",
        "evaluators": "evaluator",
        "environments": "environment",
        "queries": "query",
        "workflows": "workflow",
    }
    return next((words[part] for part in path.split("/") if part in words), "")


@dataclass(frozen=True, slots=True)
class _Filling:
    known: Known
    how: How
    trace: int
    path: str

    @property
    def kind(self) -> str:
        return _kind(self.path)

    def text(self, place: str) -> str:
        """What stands in a place of a path."""
        trace_id, span_id = self.known.traces[self.trace]
        known = {
            "trace_id": trace_id,
            "span_id": span_id,
            "dead_letter_id": "unknown",
            "rest": "spans",
            "prefix": self.known.entities["key"]["slug"],
        }.get(place)
        return known or self._entity(place.removesuffix("_id"))["id"]

    def members(self, model: type[BaseModel], *, layer: str) -> dict[str, Any]:
        """An object of a model about ``layer``: what is known, and what is required."""
        made = {}
        for name, field in model.model_fields.items():
            value = self._value(name, field, layer)
            if value is None and field.is_required():
                value = self._something(field.annotation, layer=name)
            if value is not None:
                made[field.alias or name] = value
        return made

    def _value(self, name: str, field: FieldInfo, layer: str) -> Any:
        if name == "windowing":
            return self._windowing(field)
        if name == "slug" and field.is_required():
            return "-".join(["mine", *re.findall(r"\w+", self.path), self.how.name])
        if self.how not in (How.BY_ID, How.BY_SLUG):
            return None
        known = self._of_spans(name, field)
        if known is None:
            known = self._of_entities(name, field, layer)
        if known is None and (below := _model_in(field.annotation)) is not None and not _is_reference(name):
            inside = self.members(below, layer=name)
            known = ([inside] if _is_list(field.annotation) else inside) if inside else None
        return known

    def _of_spans(self, name: str, field: FieldInfo) -> Any:
        trace_id, span_id = self.known.traces[self.trace]
        span: dict[str, Any] = {"trace_id": trace_id, "span_id": span_id, "start_time": "2026-06-01T00:00:00Z"}
        span["resource"] = {"attributes": {"project": {"id": str(self.known.project_id)}}}
        tree = {"trace_id": trace_id, "spans": {"mine": span}}
        condition = {"field": "trace_id", "operator": "is", "value": trace_id}
        is_of_intake = _model_in(field.annotation) is None
        fillings: dict[str, Any] = {
            "trace_id": trace_id,
            "span_id": span_id,
            "trace_ids": [trace_id],
            "span_ids": [span_id],
            "explain": True,
            "include_traces": True,
            "filter": {"conditions": [condition]},
            "filtering": {"conditions": [condition]},
            "links": [{"trace_id": trace_id, "span_id": span_id}],
            "group_by": [{"field": "span_name"}],
            "measures": [{"of": "cost", "as": ["sum"]}],
            "order_by": {"of": "count"},
            "keys": [{"field": "span_name"}],
            "spans": [span],
            "trace": tree if is_of_intake else None,
            "traces": [tree] if _is_list(field.annotation) else {trace_id: tree},
        }
        value = fillings.get(name)
        return [value] if isinstance(value, str) and _is_list(field.annotation) else value

    def _of_entities(self, name: str, field: FieldInfo, layer: str) -> Any:
        if name in ("slug", "slugs"):
            return self._slug(name, layer)
        if name == "key":
            return f"{self.known.entities['application']['slug']}.revision"
        if name in ("from_", "to") and self.kind:
            return self._entity("revision")["id"]
        if name == "id":
            return self.known.entities.get(self._word(layer), {}).get("id")
        if name == "base_revision_id":
            return None
        for suffix in ("_ref", "_refs", "_id", "_ids"):
            if name.endswith(suffix) and self._word(name.removesuffix(suffix)) in self.known.entities:
                return self._referring(suffix, self._entity(name.removesuffix(suffix)), field)
        return None

    def _slug(self, name: str, layer: str) -> Any:
        slug = self.known.entities.get(self._word(layer), {}).get("slug")
        if slug is None or self.how is not How.BY_SLUG:
            return None
        return [slug] if name == "slugs" else slug

    def _referring(self, suffix: str, entity: Mapping[str, str], field: FieldInfo) -> Any:
        if suffix in ("_ref", "_refs"):
            member = "slug" if self.how is How.BY_SLUG else "id"
            reference = {member: entity[member]}
            return reference if suffix == "_ref" else [reference]
        return [entity["id"]] if _is_list(field.annotation) else entity["id"]

    def _entity(self, word: str) -> Mapping[str, str]:
        return self.known.entities[self._word(word)]

    def _word(self, word: str) -> str:
        """``artifact``, ``variant`` and ``revision`` are those of the route's kind; the plural is that of a log."""
        word = word.removesuffix("s") if word.endswith("revisions") else word
        return {
            "artifact": self.kind,
            "variant": f"{self.kind}_variant",
            "revision": f"{self.kind}_revision",
        }.get(word, word)

    def _windowing(self, field: FieldInfo) -> Any:
        model = _model_in(field.annotation)
        assert model is not None
        if self.how is How.BY_CURSOR and "next" in model.model_fields:
            # Cursors of histories are ids; a small one and the other order show whatever is behind it.
            is_id = UUID in _flat(model.model_fields["next"].annotation)
            return {"next": str(UUID(int=1)), "order": "ascending"} if is_id else {"next": self.known.cursor}
        if self.how is How.AS_FEED and "by" in model.model_fields:
            return {"by": "created_at", "order": "ascending"}
        return None

    def _something(self, annotation: Any, *, layer: str) -> Any:
        """A valid value of what is required and not known."""
        if layer in _REQUIRED:
            return _REQUIRED[layer]
        model = _model_in(annotation)
        if model is not None:
            inside = self.members(model, layer=layer)
            return {"mine": inside} if _is_dict(annotation) else [inside] if _is_list(annotation) else inside
        kinds = _flat(annotation)
        if UUID in kinds:
            return str(uuid4())
        return {} if dict in kinds else [] if list in kinds else "mine"


def _is_reference(name: str) -> bool:
    return name.endswith(("_ref", "_refs"))


def _flat(annotation: Any) -> set[Any]:
    """Every type that an annotation names."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _flat(get_args(annotation)[0])
    below = [_flat(each) for each in get_args(annotation)] if origin is not None else []
    return {origin or annotation}.union(*below) - {Union, types.UnionType, type(None)}


def _is_list(annotation: Any) -> bool:
    return list in _flat(annotation) and dict not in _flat(annotation)


def _is_dict(annotation: Any) -> bool:
    return dict in _flat(annotation)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    models = [each for each in _flat(annotation) if isinstance(each, type) and issubclass(each, BaseModel)]
    return models[0] if len(models) == 1 else None
