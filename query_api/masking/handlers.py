"""Read and replace the masking rules of the project of the key (contract §9 “Masking”). Workers apply them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from common.errors import InvalidInput
from common.mask_keys import compile_key
from common.mask_texts import compile_value
from common.masking import MaskAction, MaskPlace, MaskRule
from common.postgres.masking import MaskingRules, StoredRules
from query_api.request.context import database_of
from query_api.request.json_body import ApiModel, Listed, Strict, json_response
from query_api.request.references import Text
from query_api.request.route import Request, Response, Route

RULES_MAX: Final = 64
"""Rules of a project."""

KEY_CHARACTERS_MAX: Final = 500
"""Characters of the pattern of a key."""

VALUE_CHARACTERS_MAX: Final = 1_000
"""Characters of a regular expression."""

_EXAMPLE: Final[dict[str, Any]] = {
    "masking": {
        "rules": [
            {"value": "sk-[A-Za-z0-9]{20,}", "action": "redact"},
            {"key": "user.email", "action": "hash"},
            {"key": "http.request.header.*", "places": ["attributes"], "action": "drop"},
        ]
    }
}


class MaskingRule(Strict):
    """A rule: `key`, `value`, or both."""

    action: MaskAction = Field(
        description="`redact` replaces by `[masked]`, `hash` by a hash with a secret of the project, `drop` removes."
    )
    key: Annotated[Text, Field(min_length=1, max_length=KEY_CHARACTERS_MAX)] | None = Field(
        None,
        description="The dotted path of an attribute, in any case; `*` stands for any characters. An object is masked"
        " as a whole.",
    )
    value: Annotated[Text, Field(min_length=1, max_length=VALUE_CHARACTERS_MAX)] | None = Field(
        None, description="A regular expression of RE2: what it finds in texts, numbers and names is masked."
    )
    places: Annotated[Listed[MaskPlace], Field(max_length=len(MaskPlace))] = Field(
        default_factory=list, description="The parts of a span that the rule examines; none means all."
    )


class MaskingIn(ApiModel):
    """The rules, in the order in which they apply."""

    rules: Annotated[Listed[MaskingRule], Field(max_length=RULES_MAX)] = Field(
        description="The rules. They replace those that the project has."
    )


class ReplaceMasking(ApiModel):
    """The masking rules of the project."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    masking: MaskingIn = Field(description="The rules of the project.")


class MaskedCount(ApiModel):
    """What was masked so far. A record that is read twice counts twice."""

    values: int = Field(description="The number of values that were replaced or removed.")
    last_at: datetime | None = Field(None, description="About when the last one was.")


class MaskingOut(ApiModel):
    """The masking rules of the project, and what they have masked."""

    rules: list[MaskingRule] = Field(description="The rules, in the order in which they apply.")
    masked: MaskedCount = Field(description="What was masked so far.")
    updated_at: datetime | None = Field(None, description="When the rules were replaced. Absent if never.")
    applied_within_s: float = Field(description="Records that workers read this many seconds later are masked.")


class MaskingResponse(ApiModel):
    """The masking rules of the project."""

    count: int = Field(1, description="Always 1.")
    masking: MaskingOut = Field(description="The rules.")


APPLIED_WITHIN_S: Final = 6.0
"""``ingest.masking.current.STALE_S``: a worker that does not know the rules for this long takes no records."""

PATTERNS_SIZE_MAX: Final = 16_384
"""All patterns of a project, in instructions of RE2."""

TAG: Final = "Masking"


async def get_masking(request: Request) -> Response:
    """Return the masking rules of the project of the key, and how many values they have masked."""
    return _response(await MaskingRules(database_of(request.context)).of(request.project_id))


async def replace_masking(request: Request) -> Response:
    """Replace the masking rules of the project of the key. Workers apply them to records that they read from then on;
    what is stored already stays as it is."""
    body: ReplaceMasking = request.body
    return await _replace(request, _checked(body.masking.rules))


async def delete_masking(request: Request) -> Response:
    """Remove the masking rules of the project of the key. What was masked stays masked."""
    return await _replace(request, [])


async def _replace(request: Request, rules: Sequence[MaskRule]) -> Response:
    stored = MaskingRules(database_of(request.context))
    return _response(await stored.replace(request.project_id, rules, user_id=request.user_id))


def _checked(rules: Sequence[MaskingRule]) -> list[MaskRule]:
    """Return the rules as workers read them. Raises ``InvalidInput`` that names the member."""
    size = 0
    for index, rule in enumerate(rules):
        at = f"masking.rules[{index}]"
        if rule.key is None and rule.value is None:
            raise InvalidInput(f"{at}: a rule needs `key`, `value` or both.")
        if rule.key is not None:
            size += _size(compile_key(rule.key))
        if rule.value is not None:
            try:
                size += _size(compile_value(rule.value))
            except ValueError as exc:
                raise InvalidInput(f"{at}.value: this regular expression is not allowed: {exc}.") from exc
        if size > PATTERNS_SIZE_MAX:
            raise InvalidInput(
                f"{at}: the patterns of a project may take {PATTERNS_SIZE_MAX} instructions of RE2; these take {size}."
            )
    return [MaskRule(rule.action, rule.key, rule.value, tuple(dict.fromkeys(rule.places))) for rule in rules]


def _size(compiled: object) -> int:
    return int(getattr(compiled, "programsize", 0))


def _response(stored: StoredRules | None) -> Response:
    rules = [] if stored is None else stored.rules
    masked = (
        MaskedCount(values=0) if stored is None else MaskedCount(values=stored.values_count, last_at=stored.masked_at)
    )
    masking = MaskingOut(
        rules=[MaskingRule(**{**rule._asdict(), "places": list(rule.places)}) for rule in rules],
        masked=masked,
        updated_at=None if stored is None else stored.updated_at,
        applied_within_s=APPLIED_WITHIN_S,
    )
    return json_response(MaskingResponse(masking=masking))


MASKING_ROUTES: Final = (
    Route("GET", "/masking", get_masking, "Get the masking rules.", TAG, MaskingResponse),
    Route(
        "PUT",
        "/masking",
        replace_masking,
        "Replace the masking rules.",
        TAG,
        MaskingResponse,
        body=ReplaceMasking,
        body_required=True,
        ignores_unknown=True,
    ),
    Route("DELETE", "/masking", delete_masking, "Remove the masking rules.", TAG, MaskingResponse),
)
