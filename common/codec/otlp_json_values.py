"""What OTLP/JSON has in common for spans and log records: the frame of a request, ids, values, resources and scopes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

from common.codec.checks import Bounds, at_key, invalid_type, shown
from common.codec.decoded import Group, Rejection, guarded
from common.codec.json_members import (
    JsonReader,
    from_base64,
    integer_of,
    list_of,
    object_of,
    otlp_scalar,
    text_of,
)
from common.errors import Rejected, RejectionCode
from common.json_values import UINT64_MAX
from common.span import Attributes, Resource, Scope

ID_FORMS: Final = {16: "32 hexadecimal digits", 8: "16 hexadecimal digits"}


class Names(NamedTuple):
    """The members of one message: their names, and other spellings of them, preferred spellings first."""

    known: frozenset[str]
    spelled: dict[str, str]

    def read(self, found: Any, where: str) -> dict[str, Any]:
        """Return the object with its members in lowerCamelCase. Raises ``Rejected`` if it is not an object."""
        if type(found) is not dict:
            raise invalid_type(where, found, "an object")
        if self.known.issuperset(found):
            return found
        members = dict(found)
        for spelling, name in self.spelled.items():
            if spelling in members and members.get(name) is None:
                members[name] = members[spelling]
        return members


def names_of(*known: str, former: dict[str, str] | None = None) -> Names:
    """Return the names of the members of a message. ``former``: former names in OTLP, with the current ones."""
    former = former or {}
    snake = {_snake_case(name): name for name in known}
    return Names(frozenset(known), snake | former | {_snake_case(name): now for name, now in former.items()})


def _snake_case(name: str) -> str:
    return re.sub("[A-Z]", lambda found: "_" + found[0].lower(), name)


class Frame(NamedTuple):
    """The names of a request of one signal: its messages, and the arrays in them. ``content`` is what it exports."""

    request: Names
    resource: Names
    scope: Names
    resources: str
    scopes: str
    members: str
    content: str


_RESOURCE: Final = names_of("attributes", "droppedAttributesCount")
_SCOPE: Final = names_of("name", "version", "attributes", "droppedAttributesCount")
_VALUE: Final = names_of(
    "stringValue", "boolValue", "intValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue"
)
_VALUE_KINDS: Final = ", ".join(sorted(_VALUE.known))


class OtlpReader(JsonReader):
    """Reads the messages of one record, and counts the ids that came as base64. A subclass says what the frame is."""

    __slots__ = ("base64_ids_count",)
    frame: ClassVar[Frame]
    trace_state = "traceState"
    dropped_attributes_count = "droppedAttributesCount"

    def __init__(self, bounds: Bounds, record: bytes) -> None:
        super().__init__(bounds, record)
        self.base64_ids_count = 0

    def groups(self, document: Any) -> Iterator[Group]:
        """Yield the groups of a whole document. Raises ``Rejected`` if it does not have the frame of a request."""
        frame = self.frame
        for found in list_of(self.check_is_request(document).get(frame.resources), frame.resources):
            of_resource = _framed(frame.resource, found, f"An element of {frame.resources}")
            resource: Resource | Rejection | None = None
            for inner in list_of(of_resource.get(frame.scopes), frame.scopes):
                of_scope = _framed(frame.scope, inner, f"An element of {frame.scopes}")
                members = list_of(of_scope.get(frame.members), frame.members)
                if not members:  # a record may hold millions of these
                    continue
                if resource is None:
                    resource = guarded(self.resource, of_resource)
                yield Group(resource, guarded(self.scope, of_scope), members)

    def check_is_request(self, document: Any) -> dict[str, Any]:
        """Return the members of the request. An object with only other members is another document, not an empty
        request.
        """
        frame = self.frame
        request = _framed(frame.request, document, "The record")
        if request and frame.resources not in request:
            raise Rejected(
                RejectionCode.UNDECODABLE,
                f"The record has no {frame.resources} but {shown(', '.join(request))}: it is not an export of"
                f" {frame.content}.",
            )
        return request

    def resource(self, of_resource: Any) -> Resource:
        """Read the resource of an element of the outermost array."""
        where = self.frame.resources
        found = self.frame.resource.read(of_resource, where)
        schema_url = text_of(found.get("schemaUrl"), f"{where}.schemaUrl")
        return self._resource(_RESOURCE.read(found.get("resource") or {}, "resource"), schema_url)

    def scope(self, of_scope: Any) -> Scope:
        """Read the scope of an element of the array in it."""
        where = self.frame.scopes
        found = self.frame.scope.read(of_scope, where)
        schema_url = text_of(found.get("schemaUrl"), f"{where}.schemaUrl")
        return self._scope(_SCOPE.read(found.get("scope") or {}, "scope"), schema_url)

    def _id(self, found: Any, size: int, code: RejectionCode, where: str) -> bytes:
        """Return the bytes of an id, empty if it is absent."""
        if not found:
            if found is None or found == "":
                return b""
        elif type(found) is str:
            if len(found) == size * 2:
                try:
                    raw = bytes.fromhex(found)
                except ValueError:
                    raw = b""
                if len(raw) == size:  # fromhex skips spaces
                    return raw
            raw = from_base64(found) or b""
            if len(raw) == size:
                self.base64_ids_count += 1
                return raw
        raise Rejected(code, f"{where} is {shown(found)}; it must be {ID_FORMS[size]}.")

    def _attributes(self, found: Any, where: str) -> Attributes:
        """Return attributes as JSON-ready values. Texts, which most are, take a short path."""
        if found is None:
            return {}
        if type(found) is not list:
            raise invalid_type(where, found, 'a list of {"key": …, "value": {"stringValue": …}}')
        attributes: Attributes = {}
        for key_value in found:
            try:
                key = key_value["key"]
                value = key_value["value"]
                text = value["stringValue"]
            except (KeyError, TypeError):
                key, value, text = *_pair(key_value, where), None
            if type(text) is str and len(value) == 1 and type(key) is str:
                attributes[key] = text
            else:
                key = text_of(key, f"A key in {where}")
                attributes[key] = self._value(value, self._faults.depth_max, at_key(where, key))
        return attributes

    def _value(self, found: Any, levels_left: int, where: str) -> Any:
        """Return one value. ``levels_left`` is how many arrays and objects may still be opened."""
        value = self._opened(found, where)
        kind = type(value)
        if kind is not list and kind is not dict:
            return value
        if levels_left == 0:
            return self._faults.deep(found, partial(self._opened, where=where))
        if kind is list:
            return [self._value(element, levels_left - 1, where) for element in value]
        return {key: self._value(member, levels_left - 1, where) for key, member in value.items()}

    def _opened(self, found: Any, where: str) -> Any:
        """Return a scalar, or the values of an array or object as they were sent."""
        if not found and (found is None or type(found) is dict):
            return None
        members = _VALUE.read(found, where)
        known = [name for name in members if name in _VALUE.known]
        kinds = [name for name in known if members[name] is not None]
        if known and not kinds:
            return None
        if len(kinds) != 1:
            kind = "no kind that OTLP knows" if not kinds else "several kinds: " + ", ".join(kinds)
            raise Rejected(RejectionCode.INVALID_TYPE, f"{where} is of {kind}; it must be one of {_VALUE_KINDS}.")
        kind = kinds[0]
        value = members[kind]
        if kind not in ("arrayValue", "kvlistValue"):
            return otlp_scalar(kind, value, f"{where}.{kind}")
        inner = list_of(object_of(value, where).get("values"), f"{where}.values")
        if kind == "arrayValue":
            return inner
        pairs = (_pair(member, where) for member in inner)
        return {text_of(key, f"A key in {where}"): one for key, one in pairs}


def _framed(names: Names, found: Any, where: str) -> dict[str, Any]:
    """Read a part of the frame. A wrong one rejects the whole record, because its spans cannot be separated."""
    try:
        return names.read(found, where)
    except Rejected as rejected:
        raise Rejected(RejectionCode.UNDECODABLE, rejected.detail) from rejected


def _pair(found: Any, where: str) -> tuple[Any, Any]:
    """Return key and value of one element of a list of pairs."""
    members = object_of(found, f"An element of {where}")
    return members.get("key"), members.get("value")


def uint64(found: Any, where: str) -> int:
    """Return an unsigned integer of 64 bits, 0 if absent."""
    return integer_of(found, where, minimum=0, maximum=UINT64_MAX)
