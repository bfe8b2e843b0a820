"""The models of the masking rules of a project."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from common.masking import MaskAction, MaskPlace
from query_api.request.json_body import Listed, Strict
from query_api.request.references import Text

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


class MaskingIn(BaseModel):
    """The rules, in the order in which they apply."""

    rules: Annotated[Listed[MaskingRule], Field(max_length=RULES_MAX)] = Field(
        description="The rules. They replace those that the project has."
    )


class ReplaceMasking(BaseModel):
    """The masking rules of the project."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    masking: MaskingIn = Field(description="The rules of the project.")


class MaskedCount(BaseModel):
    """What was masked so far. A record that is read twice counts twice."""

    values: int = Field(description="The number of values that were replaced or removed.")
    last_at: datetime | None = Field(None, description="About when the last one was.")


class MaskingOut(BaseModel):
    """The masking rules of the project, and what they have masked."""

    rules: list[MaskingRule] = Field(description="The rules, in the order in which they apply.")
    masked: MaskedCount = Field(description="What was masked so far.")
    updated_at: datetime | None = Field(None, description="When the rules were replaced. Absent if never.")
    applied_within_s: float = Field(description="Records that workers read this many seconds later are masked.")


class MaskingResponse(BaseModel):
    """The masking rules of the project."""

    count: int = Field(1, description="Always 1.")
    masking: MaskingOut = Field(description="The rules.")
