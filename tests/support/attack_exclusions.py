"""Responses that a check of schemathesis calls wrong and that the contract promises: each with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.core.transport import Response
from schemathesis.generation.case import Case
from schemathesis.openapi.checks import EnsureResourceAvailability, RejectedPositiveData

_COERCED: Final = re.compile(
    r"true|false|on|off|yes|no|t|f|y|n|[+-]?\d+(\.0*)?|[+-]?\d*\.\d+([eE][+-]?\d+)?", re.IGNORECASE
)
"""Texts that pydantic reads as a boolean or a number."""

_OF_ANOTHER_TYPE: Final = re.compile(r"(?P<name>[\w$-]+)(?:: Incorrect type|(?:/\w+/\d+)* \(was \w+, became \w+\))")
"""What schemathesis says of a member whose value has another type than the schema says, in its two phases."""


def is_excluded(failure: Failure, case: Case, response: Response) -> str:
    """Return the reason why a failure is what the contract promises; empty if it is a failure."""
    reasons = (reason for reason, applies in _EXCLUSIONS.items() if applies(failure, case, response))
    return next(reasons, "") or _problems_reason(failure, response)


def _means_nothing(failure: Failure, _case: Case, response: Response) -> bool:
    return isinstance(failure, RejectedPositiveData) and response.status_code == 400


def _problems_reason(failure: Failure, response: Response) -> str:
    """Return the reason of the first problem of a 422 if each of its problems has one; empty otherwise."""
    if not isinstance(failure, RejectedPositiveData) or response.status_code != 422:
        return ""
    reasons = [_problem_reason(problem) for problem in orjson.loads(response.content)["detail"]]
    return reasons[0] if all(reasons) else ""


def _problem_reason(problem: Mapping[str, Any]) -> str:
    described = _described(problem)
    return next(
        (
            reason
            for reason, excluded in _PROBLEMS.items()
            for kind, pattern in excluded
            if re.fullmatch(kind, problem["type"]) and re.search(pattern, described)
        ),
        "",
    )


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


def _names_another(failure: Failure, case: Case, _response: Response) -> bool:
    """Whether the 404 is of something that the body names: the path alone would be what was created."""
    return isinstance(failure, EnsureResourceAvailability) and "{" not in case.path


_EXCLUSIONS: Final[Mapping[str, Callable[[Failure, Case, Response], bool]]] = {
    "400 is for what is well-formed but means nothing (contract §1), which no schema says": _means_nothing,
    "null is the query without conditions where a body is not required (contract §1)": _is_null_body,
    "booleans and numbers are read as each other and from texts, as the reference reads them": _is_coerced,
    "the check takes `POST /applications/revisions` for a part of what `POST /applications` created": _names_another,
}
"""By reason: whether it applies to a failure of a request and its response."""

_PROBLEMS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "a text with a JSON document in it, a time, or a name with U+0000: no schema says what can be read": (
        ("json_invalid|model_attributes_type|dict_type|bool_parsing|bool_type", "^query[.](tags|meta|flags)"),
        ("value_error", "the text is not JSON"),
        ("datetime_parsing|datetime_from_date_parsing|date_from_datetime_parsing", ""),
        ("value_error", "Timestamp .* (cannot be read|is ambiguous)|This time has no date in UTC"),
        ("value_error", "U[+]0000 cannot be stored"),
        ("value_error", "A tag is a text, a boolean or an object of tags"),
        ("value_error", "Objects and arrays nest deeper than"),
        ("value_error", "A URL holds no control characters|names a host|is not a URL|must not (contain|have)"),
        ("value_error|tls", "[.]ca: "),
        (
            "value_error|servers",
            "must be whsec_|names of HTTP headers|printable ASCII characters|Input should be host:port",
        ),
    ),
    "bounds that are a setting, or a sum of units": (
        ("less_than_equal", "(max_depth|max_embeds|limit): "),
        ("value_error", "must be at most (31d|1d)|must not be longer than"),
    ),
    "a delta is validated as data of its kind; the document has one delta for all kinds": (
        ("missing|extra_forbidden", "[.]delta[.]set"),
    ),
    "the parent has two names, of which one is required (reference)": (("missing", "_id: Field required"),),
    "the data of an annotation must match the schema of its evaluator, which no document knows": (
        ("value_error[.]json_schema", "^body[.]annotation[.]data"),
    ),
}
"""By reason: the type of a problem of a 422, and a pattern of its place and message; both must match."""

_NO_DEAD_LETTER: Final = "the attack sends nothing that becomes a dead letter"
_ID_TWICE: Final = "the id in the path must be that in the body, which no schema says"
_TWO_REVISIONS: Final = "two revisions of one variant must be named"
_NOT_FAILING: Final = "it is for a target that fails, and nothing is delivered during the attack"

WITHOUT_SUCCESS: Final[Mapping[str, str]] = {
    "DELETE /admin/dead-letters/{dead_letter_id}": _NO_DEAD_LETTER,
    "GET /admin/dead-letters/{dead_letter_id}": _NO_DEAD_LETTER,
    "POST /admin/dead-letters/{dead_letter_id}/replay": _NO_DEAD_LETTER,
    "DELETE /admin/projects/{project_id}": "the attack does not delete its own project, and there is no other",
    "GET /applications/revisions/diff": _TWO_REVISIONS,
    "GET /evaluators/revisions/diff": _TWO_REVISIONS,
    "GET /environments/revisions/diff": _TWO_REVISIONS,
    "GET /queries/revisions/diff": _TWO_REVISIONS,
    "POST /alerts/{alert_id}/skip": _NOT_FAILING,
    "POST /subscriptions/{subscription_id}/skip": _NOT_FAILING,
    "POST /applications/revisions/deploy": "a revision of an application and an environment must be named",
    "POST /evaluators/revisions/deploy": "the same",
    "POST /environments/revisions": "the variant must have no revision",
    "POST /evaluators/revisions": "the same",
    "POST /applications/variants/fork": "a variant and a slug that is free must be named",
    "POST /evaluators/variants/fork": "the same",
    "POST /environments/variants/fork": "the same",
    "POST /queries/variants/fork": "the same",
    "PUT /applications/{application_id}": _ID_TWICE,
    "PUT /applications/variants/{application_variant_id}": _ID_TWICE,
    "PUT /applications/revisions/{application_revision_id}": _ID_TWICE,
    "PUT /evaluators/{evaluator_id}": _ID_TWICE,
    "PUT /evaluators/variants/{evaluator_variant_id}": _ID_TWICE,
    "PUT /evaluators/revisions/{evaluator_revision_id}": _ID_TWICE,
    "PUT /environments/{environment_id}": _ID_TWICE,
    "PUT /environments/variants/{environment_variant_id}": _ID_TWICE,
    "PUT /environments/revisions/{environment_revision_id}": _ID_TWICE,
    "PUT /queries/{query_id}": _ID_TWICE,
    "PUT /queries/variants/{query_variant_id}": _ID_TWICE,
    "PUT /queries/revisions/{query_revision_id}": _ID_TWICE,
    "PUT /simple/applications/{application_id}": _ID_TWICE,
    "PUT /simple/evaluators/{evaluator_id}": _ID_TWICE,
    "PUT /simple/environments/{environment_id}": _ID_TWICE,
    "PUT /simple/queries/{query_id}": _ID_TWICE,
    "PUT /traces/{trace_id}": "the spans in the body must be of the trace in the path, which no schema says",
}
"""Operations that made requests do not succeed with: why. ``test_second_project.py`` sends what they accept."""
