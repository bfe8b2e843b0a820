"""From the JSON shape of a filter to its tree: which operator a field takes, and the limits of a tree.

The models check the shape: a group has ``conditions``, a condition has ``field``, never both; a member without
``field`` is a group (reference §5.1). Unknown members are refused: in a filter, a typo would widen the result (contract
§1). ``parse`` checks the meaning. It raises ``InvalidFilter`` with the JSON path of the error, as in
``filtering.conditions[1].operator``, what is wrong, and what is allowed. Source: contract §3.2, reference §5.2.
Operands, and limits of a whole filter: ``operands.py``.

Relative times (``now`` and ``-15m``) stay in the tree as ``RelativeTime``, so that a cursor can be bound to the text.
``resolve_times`` replaces them before the tree is compiled (``sql/compile.py``) or interpreted (``matches.py``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final, assert_never

from pydantic import Discriminator, Tag
from pydantic import Field as ModelField

from common.errors import InvalidFilter
from common.fair_share import in_thread
from common.times import RelativeTime
from query_api.filter import operands
from query_api.filter.elements import read_keyed_member, read_partials
from query_api.filter.language import (
    ALLOWED_OPERATORS,
    ATTRIBUTES,
    EVERYTHING,
    FIELDS,
    NAME_LENGTH_MAX,
    OPERATORS,
    SCORES,
    WITHOUT_KEY,
    Condition,
    Field,
    Group,
    GroupOperator,
    Kind,
    Node,
    Operand,
    OperandKind,
    Operator,
    ValuePlace,
    did_you_mean,
    is_sum,
)
from query_api.filter.operands import LARGE, Totals, estimated_values
from query_api.request.json_body import Strict


class Options(Strict):
    """The options of a comparison."""

    case_sensitive: bool | None = ModelField(
        None, description="Text operators: compare case-sensitively. Default: false."
    )
    exact_match: bool | None = ModelField(None, description="Text operators: match the whole text. Default: false.")
    all: bool | None = ModelField(
        None, description="`in`: require every value of the list instead of one. Default: false."
    )


class ConditionModel(Strict):
    """A condition on one field of a span."""

    field: str = ModelField(
        description=(
            "The field to test. `attributes`, `resource` and `scope` need a `key`, and so do `scores`, except under"
            " `exists` and `not_exists`. The shorthands are `duration`"
            " (milliseconds), `operation` (the name of the span with `*` instead of ids), `service`, `model`,"
            " `provider`, `session` and `user` (of any span), `tokens` and `cost`."
        )
    )
    key: str | None = ModelField(
        None,
        description=(
            "A dotted path into the field; a number is an index of an array. On `resource` and `scope` it is a path"
            " in their attributes (`service.name`), or one of their members: `schema_url`, `dropped_attributes_count`,"
            " and for `scope` also `name` and `version`. `attributes.name` is the attribute of that name."
            " On `scores` it is the name of a score, as it is."
        ),
    )
    value: Any = ModelField(
        None,
        description=(
            "The value to compare with. A time may be relative to the server's clock: `now`, or a time before it with a"
            " unit of `s m h d w`, such as `-15m`."
        ),
    )
    operator: Operator = ModelField(Operator.IS, description="The comparison.")
    options: Options | None = ModelField(None, description="Options of the comparison.")


def _tag(member: Any) -> str:
    has_field = "field" in member if isinstance(member, dict) else isinstance(member, ConditionModel)
    return "Condition" if has_field else "Filtering"


class FilteringModel(Strict):
    """Conditions combined by a Boolean function. Without conditions, every span matches."""

    operator: GroupOperator = ModelField(GroupOperator.AND, description="How the conditions combine.")
    conditions: list[
        Annotated[
            Annotated[ConditionModel, Tag("Condition")] | Annotated[FilteringModel, Tag("Filtering")],
            Discriminator(_tag),
        ]
    ] = ModelField(default_factory=list, description="Conditions, and groups of conditions.")


GROUPS_DEPTH_MAX: Final = 16
"""The outermost group is at depth 1."""

CONDITIONS_MAX: Final = 256
MEMBERS_MAX: Final = CONDITIONS_MAX * (GROUPS_DEPTH_MAX + 1)
"""Conditions and groups of a filter together. More of them means too many conditions, or groups without conditions,
which are true and cost as much to validate and to compile."""

PATH_SEGMENTS_MAX: Final = 256
"""Segments of a key: many times deeper than attributes nest. A path is compiled segment by segment."""

_NO_OPTIONS: Final = Options()
_KEYED: Final = frozenset({Kind.JSON, Kind.SCORES})


async def parse_filter(filtering: FilteringModel | None, *, path: str = "filtering") -> Node:
    """Return ``parse(filtering, path=path)``; parse many values, which takes up to 80 ms, in a thread (ADR 0014)."""
    if filtering is None or _size(filtering) < LARGE:
        return parse(filtering, path=path)
    return await in_thread(parse, filtering, path=path)


def parse(filtering: FilteringModel | None, *, path: str = "filtering") -> Node:
    """Return the tree of a filter; ``None`` is the filter without conditions. ``path`` is its place in the request."""
    if filtering is None:
        return EVERYTHING
    return _Parser().group(filtering, path, depth=1)


def parse_place(field: str, key: str | None = None, *, path: str, allows_sums: bool = False) -> ValuePlace:
    """Return where the values of a field are that a statement sorts, groups or measures by (``sql/values.py``).

    ``field`` and ``key`` are as in a condition, ``path`` is their place in the request. Raises ``InvalidFilter`` for
    a field that has no single value, and for sums over whole traces unless it ``allows_sums``.
    """
    found = _known(field, f"{path}.field")
    if found.kind in (Kind.ELEMENTS, Kind.CONTENT):
        allowed = ", ".join(each.name for each in FIELDS.values() if each.kind not in (Kind.ELEMENTS, Kind.CONTENT))
        raise InvalidFilter(f"{path}.field", f"'{field}' has no single value; allowed: {allowed}.")
    if found.kind is Kind.SCORES and key is None:
        raise InvalidFilter(f"{path}.key", f"'{field}' needs the name of a score as key.")
    place = ValuePlace(field, _segments(found, key, Operator.EXISTS, path))
    if is_sum(place) and not allows_sums:
        raise InvalidFilter(
            f"{path}.key", f"'{key}' is a sum over a whole trace; allowed are other attributes, tokens and cost."
        )
    return place


def check_groups(filtering: Any, *, path: str = "filtering") -> Any:
    """Return plain JSON; refuse it if its groups nest too deep or have too many members, before any code recurses into
    it or validates each member."""
    level, depth, members_count = [filtering], 0, 0
    while level:
        depth += 1
        if depth > GROUPS_DEPTH_MAX + 1:  # conditions are one level below the innermost group
            raise _too_deep(path)
        level = [
            member
            for group in level
            if isinstance(group, dict) and isinstance(group.get("conditions"), list)
            for member in group["conditions"]
        ]
        members_count += len(level)
        if members_count > MEMBERS_MAX:
            raise InvalidFilter(
                path, f"more than {MEMBERS_MAX} conditions and groups; at most {CONDITIONS_MAX} conditions are allowed."
            )
    return filtering


class _Parser:
    """Parses one filter, and counts its conditions and what they ask for together."""

    def __init__(self) -> None:
        self._conditions_count = 0
        self._totals = Totals()

    def group(self, model: FilteringModel, path: str, *, depth: int) -> Group:
        if depth > GROUPS_DEPTH_MAX:
            raise _too_deep(path)
        members: list[Node] = []
        for index, member in enumerate(model.conditions):
            at = f"{path}.conditions[{index}]"
            if isinstance(member, FilteringModel):
                members.append(self.group(member, at, depth=depth + 1))
            else:
                members.append(self._condition(member, at))
        return Group(model.operator, tuple(members))

    def _condition(self, model: ConditionModel, path: str) -> Node:
        self._conditions_count += 1
        if self._conditions_count > CONDITIONS_MAX:
            raise InvalidFilter(path, f"more than {CONDITIONS_MAX} conditions in one filter.")
        field = _field(model, path)
        segments = _segments(field, model.key, model.operator, path)
        negated = OPERATORS[model.operator].negates
        operator = negated or model.operator
        is_null = operator is Operator.IS and model.value is None
        if is_null:
            if field.is_required:
                raise InvalidFilter(f"{path}.value", f"'{field.name}' is required and thus never null.")
            condition = Condition(field.name, Operator.EXISTS, path=segments)
        else:
            condition = _read_condition(field, operator, segments, model, path)
        self._totals.add(condition, path)
        positive = _negation(condition) if is_null else condition
        return positive if negated is None else _negation(positive)


def _negation(node: Node) -> Group:
    return Group(GroupOperator.NOT, (node,))


def _read_condition(
    field: Field, operator: Operator, segments: tuple[str, ...], model: ConditionModel, path: str
) -> Condition:
    options = model.options or _NO_OPTIONS
    is_text = OPERATORS[operator].operand in (OperandKind.LITERAL, OperandKind.PATTERN)
    return Condition(
        field.name,
        Operator.IN if operator is Operator.HAS and field.kind is Kind.ELEMENTS else operator,
        _operand(field, operator, model, path),
        segments,
        is_all=operator is Operator.IN and options.all is True,
        is_case_sensitive=is_text and options.case_sensitive is True,
        is_exact=is_text and options.exact_match is True,
    )


def _operand(  # noqa: C901 - one case for each kind of operand
    field: Field, operator: Operator, model: ConditionModel, path: str
) -> Operand:
    value, at = model.value, f"{path}.value"
    match OPERATORS[operator].operand:
        case OperandKind.NOTHING:
            if value is not None and field.kind not in _KEYED:
                raise InvalidFilter(at, f"'{field.name}' value is not supported for existence operators.")
            return None
        case OperandKind.MEMBER if field.kind is Kind.ELEMENTS:
            return read_keyed_member(field, model.key, value, path)
        case OperandKind.MEMBER if value is None:
            raise InvalidFilter(at, f"'{operator}' needs the key of an object or an element of an array; got null.")
        case OperandKind.VALUE | OperandKind.MEMBER:
            return operands.read_value(field, value, at)
        case OperandKind.COMPARABLE:
            return operands.read_comparable(field, operator, value, at)
        case OperandKind.RANGE:
            return operands.read_range(field, operator, value, at)
        case OperandKind.LIST if field.kind is Kind.ELEMENTS:
            return read_partials(field, value, at)
        case OperandKind.LIST:
            return operands.read_scalars(field, operator, value, at)
        case OperandKind.LITERAL if field.kind is Kind.CONTENT:
            return operands.read_content(value, at)
        case OperandKind.LITERAL | OperandKind.PATTERN:
            return operands.read_text(value, at, f"'{operator}' needs")
        case kind:
            assert_never(kind)


def _field(model: ConditionModel, path: str) -> Field:
    field = _known(model.field, f"{path}.field")
    if field.kind not in OPERATORS[model.operator].kinds:
        raise InvalidFilter(f"{path}.operator", _unsupported(field, model.operator))
    return field


def _known(name: str, at: str) -> Field:
    field = FIELDS.get(name)
    if field is None:
        allowed = ", ".join(FIELDS)
        raise InvalidFilter(at, f"'{name[:NAME_LENGTH_MAX]}' is not a field; allowed: {allowed}.{did_you_mean(name)}")
    return field


def _unsupported(field: Field, operator: Operator) -> str:
    allowed = ", ".join(ALLOWED_OPERATORS[field.kind])
    if field.kind is Kind.CONTENT:
        return "'content' only supports full-text search operator: 'contains'."
    if field.kind is Kind.ELEMENTS:
        return f"'{field.name}' only supports list, dict, and existence operators: {allowed}."
    return f"'{field.name}' does not support '{operator}'; allowed: {allowed}."


def _segments(field: Field, key: str | None, operator: Operator, path: str) -> tuple[str, ...]:
    at = f"{path}.key"
    if field.kind is Kind.ELEMENTS:
        if key is not None and OPERATORS[operator].operand is not OperandKind.MEMBER:
            raise InvalidFilter(at, f"'{field.name}' key is only supported for dict operators.")
        return ()
    if field.kind not in _KEYED:
        if key is not None:
            keyed = ", ".join(other.name for other in FIELDS.values() if other.kind in _KEYED)
            raise InvalidFilter(at, f"'{field.name}' has no keys; fields with keys: {keyed}.")
        return ()
    if field.kind is Kind.SCORES:
        return _name_of_score(key, operator, at)
    if key is None:
        raise InvalidFilter(
            at, f"'{field.name}' key is required and thus never null: give a dotted path such as ag.type.span."
        )
    operands.check_size(key, at)
    segments = tuple(key.split("."))
    if len(segments) > PATH_SEGMENTS_MAX:
        raise InvalidFilter(at, f"the path has {len(segments)} segments; at most {PATH_SEGMENTS_MAX} are allowed.")
    return segments if _is_whole_path(segments, field) else (ATTRIBUTES, *segments)


def _name_of_score(name: str | None, operator: Operator, at: str) -> tuple[str, ...]:
    if name is None:
        if operator in WITHOUT_KEY:
            return ()
        raise InvalidFilter(
            at, f"'{SCORES}' needs the name of a score as key; without one allowed: {', '.join(WITHOUT_KEY)}."
        )
    operands.check_size(name, at)
    return (name,)


def _is_whole_path(segments: tuple[str, ...], field: Field) -> bool:
    """Whether a key begins at the field and not at its attributes: the name of a member of ``resource`` or ``scope``
    does."""
    return not field.members or segments[0] == ATTRIBUTES or (len(segments) == 1 and segments[0] in field.members)


def _too_deep(path: str) -> InvalidFilter:
    return InvalidFilter(path, f"groups are nested deeper than {GROUPS_DEPTH_MAX} levels.")


def _size(model: FilteringModel | ConditionModel) -> int:
    return estimated_values(model.value) if isinstance(model, ConditionModel) else sum(map(_size, model.conditions))


def has_relative_time(node: Node) -> bool:
    """Return whether a filter depends on the time at which it is resolved."""
    if isinstance(node, Condition):
        return any(isinstance(value, RelativeTime) for value in _times_in(node))
    return any(map(has_relative_time, node.members))


def resolve_times(node: Node, *, now_us: int) -> Node:
    """Return the filter with absolute times; ``now_us`` is in microseconds since 1970."""
    if not has_relative_time(node):
        return node
    if not isinstance(node, Condition):
        return replace(node, members=tuple(resolve_times(member, now_us=now_us) for member in node.members))
    resolved = [value.at_us(now_us) if isinstance(value, RelativeTime) else value for value in _times_in(node)]
    return replace(node, operand=resolved if isinstance(node.operand, list) else resolved[0])


def _times_in(condition: Condition) -> list[Any]:
    operand: Any = condition.operand
    if FIELDS[condition.field].kind is not Kind.TIME:
        return []
    return operand if isinstance(operand, list) else [operand]
