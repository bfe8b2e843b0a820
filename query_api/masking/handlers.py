"""Read and replace the masking rules of the project of the key (contract §9 “Masking”). Workers apply them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from common.errors import InvalidInput
from common.mask_keys import compile_key
from common.mask_texts import compile_value
from common.masking import MaskRule
from common.postgres.masking import MaskingRules, StoredRules
from query_api.masking.schemas import MaskedCount, MaskingOut, MaskingResponse, MaskingRule, ReplaceMasking
from query_api.request.context import database_of
from query_api.request.json_body import json_response
from query_api.request.route import Request, Response, Route

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
