"""Responses that a check of schemathesis calls wrong and that the contract promises: each with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.core.transport import Response
from schemathesis.generation.case import Case
from schemathesis.openapi.checks import RejectedPositiveData

_COERCED: Final = re.compile(
    r"true|false|on|off|yes|no|t|f|y|n|[+-]?\d+(\.0*)?|[+-]?\d*\.\d+([eE][+-]?\d+)?", re.IGNORECASE
)
"""Texts that pydantic reads as a boolean or a number."""

_OF_ANOTHER_TYPE: Final = re.compile(r"(?P<name>[\w$-]+)(?:: Incorrect type|(?:/\w+/\d+)* \(was \w+, became \w+\))")
"""What schemathesis says of a member whose value has another type than the schema says, in its two phases."""


def is_excluded(failure: Failure, case: Case, response: Response) -> str:
    """Return the reason why a failure is what the contract promises; empty if it is a failure."""
    return next((reason for reason, applies in _EXCLUSIONS.items() if applies(failure, case, response)), "")


def _means_nothing(failure: Failure, _case: Case, response: Response) -> bool:
    return isinstance(failure, RejectedPositiveData) and response.status_code == 400


def _has_problems(*problems: tuple[str, str]) -> Callable[[Failure, Case, Response], bool]:
    """Whether the response is 422 and every problem has one of these types, with a message or a place that matches."""

    def applies(failure: Failure, _case: Case, response: Response) -> bool:
        if not isinstance(failure, RejectedPositiveData) or response.status_code != 422:
            return False
        return all(
            any(
                re.fullmatch(kind, problem["type"]) and re.search(pattern, _described(problem))
                for kind, pattern in problems
            )
            for problem in orjson.loads(response.content)["detail"]
        )

    return applies


def _described(problem: Mapping[str, Any]) -> str:
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


def _is_null_body(failure: Failure, case: Case, response: Response) -> bool:
    is_required = case.operation.definition.raw.get("requestBody", {}).get("required", False)
    return isinstance(failure, AcceptedNegativeData) and not is_required and response.request.body in (b"null", "null")


def _is_coerced(failure: Failure, case: Case, _response: Response) -> bool:
    """Whether all that is wrong with the request is a scalar where another scalar belongs."""
    if not isinstance(failure, AcceptedNegativeData):
        return False
    names = _OF_ANOTHER_TYPE.findall(failure.message)
    return bool(names) and all(any(_is_coercible(value) for value in _values_of(case.body, name)) for name in names)


def _values_of(node: object, name: str) -> Iterator[object]:
    if isinstance(node, dict):
        if name in node:
            yield node[name]
        for value in node.values():
            yield from _values_of(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from _values_of(value, name)


def _is_coercible(value: object) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and bool(_COERCED.fullmatch(value.strip())))


_EXCLUSIONS: Final[Mapping[str, Callable[[Failure, Case, Response], bool]]] = {
    "400 is for what is well-formed but means nothing (contract §1), which no schema says": _means_nothing,
    "null is the query without conditions where a body is not required (contract §1)": _is_null_body,
    "booleans and numbers are read as each other and from texts, as the reference reads them": _is_coerced,
    "a text with a JSON document in it, a time, or a name with U+0000: no schema says what can be read": _has_problems(
        ("json_invalid|model_attributes_type|dict_type|bool_parsing|bool_type", "^query[.](tags|meta|flags)"),
        ("value_error", "the text is not JSON"),
        ("datetime_parsing|datetime_from_date_parsing|date_from_datetime_parsing", ""),
        ("value_error", "Timestamp .* (cannot be read|is ambiguous)|This time has no date in UTC"),
        ("value_error", "U[+]0000 cannot be stored"),
        ("value_error", "A tag is a text, a boolean or an object of tags"),
        ("value_error", "Objects and arrays nest deeper than"),
        ("value_error", "A URL holds no control characters|names a host|is not a URL|must not (contain|have)"),
        ("value_error", "[.]ca: "),
        (
            "value_error|servers",
            "must be whsec_|names of HTTP headers|printable ASCII characters|Input should be host:port",
        ),
    ),
    "bounds that are a setting, or a sum of units": _has_problems(
        ("less_than_equal", "(max_depth|max_embeds|limit): "),
        ("value_error", "must be at most (31d|1d)|must not be longer than"),
    ),
    "a delta is validated as data of its kind; the document has one delta for all kinds": _has_problems(
        ("missing|extra_forbidden", "[.]delta[.]set")
    ),
    "the parent has two names, of which one is required (reference)": _has_problems(("missing", "_id: Field required")),
}
"""By reason: whether it applies to a failure of a request and its response."""
