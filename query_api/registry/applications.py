"""Applications and evaluators as kinds of history: what a revision holds, and the flags that follow from it.

Both show rows of one kind under the same ids; what differs is their names, and the role that each sets and that its
lists require. Source: reference ``applications-api`` §1.4 and §4–§8, ``workflows-evaluators-testsets`` §1 and §3. The
routes are in ``queries/revisions.py``, because one counts spans.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, TypeAlias
from urllib.parse import urlsplit

from jsonschema_rs import ValidationError, meta
from pydantic import AfterValidator, Discriminator, Field, Tag

from query_api.registry.kinds import (
    APPLICATIONS,
    EVALUATORS,
    FlagConditions,
    FlagsFilter,
    History,
    Loose,
    Meta,
    RevisionData,
    RevisionFlags,
    RoleFlags,
    Sample,
    json_text,
)
from query_api.request.json_body import Named
from query_api.request.references import ReferenceIn, Text

_STRIPPED: Final = re.compile(r"^ |[\x00-\x1f\x7f]")

JSON_SCHEMA_DRAFTS: Final = frozenset(
    f"{scheme}://json-schema.org/{draft}/schema"
    for scheme in ("http", "https")
    for draft in ("draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12")
)


def _web_address(text: str) -> str:
    if _STRIPPED.search(text):  # `urlsplit` strips them, and they would be stored
        raise ValueError("A URL holds no control characters and does not begin with a space.")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:  # an invalid port raises
        raise ValueError("A URL begins with http:// or https:// and names a host.")
    return text


def check_json_schema(value: dict[str, Any]) -> dict[str, Any]:
    """Return ``value``. Raise ``ValueError``, with the place, if it is not a JSON Schema.

    The metaschema is that of the draft in ``$schema``, else of draft 2020-12. Nothing is fetched: an unknown
    metaschema and references to other documents are not checked.
    """
    named = value.get("$schema", "")
    if not isinstance(named, str):
        # pydantic reports ValueError only
        raise ValueError("Not a JSON Schema: at /$schema: not a text.")  # noqa: TRY004
    is_known = named.rstrip("#") in JSON_SCHEMA_DRAFTS
    try:
        # The checker would fetch an unknown metaschema from wherever the client says.
        meta.validate(value if is_known else {name: member for name, member in value.items() if name != "$schema"})
    except ValidationError as exc:
        where = "".join(f"/{part}" for part in exc.instance_path)
        raise ValueError(f"Not a JSON Schema: at {where or '/'}: {exc.message[:500]}") from exc
    return value


def _form(value: Any) -> str:
    return "object" if isinstance(value, dict | ReferenceIn) else "text"


WebAddress = Annotated[
    Text, AfterValidator(_web_address), Field(json_schema_extra={"pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[^/?#]"})
]
JsonSchema = Annotated[Meta, AfterValidator(check_json_schema)]
HeaderValue: TypeAlias = Annotated[
    Annotated[Text, Tag("text")] | Annotated[ReferenceIn, Tag("object")], Discriminator(_form)
]
"""A text, or a reference to an object that holds the text."""


class Runtime(StrEnum):
    """The runtime of a script."""

    PYTHON = "python"
    TYPESCRIPT = "typescript"
    JAVASCRIPT = "javascript"


class Schemas(Loose):
    """The parameters, inputs and outputs of an application, as JSON Schemas."""

    parameters: JsonSchema | None = None
    inputs: JsonSchema | None = None
    outputs: JsonSchema | None = None


class ApplicationRoles(RoleFlags):
    """The roles of an application. `is_application` is always true."""

    role: ClassVar[str] = "is_application"
    is_application: bool | None = None
    is_evaluator: bool | None = None
    is_snippet: bool | None = None

    def stored(self) -> str:
        """Return the three roles as JSON text. Roles that were not sent are false, except that of the family."""
        return json_text({role: bool(getattr(self, role)) for role in ROLES} | {self.role: True})


class ApplicationFlags(ApplicationRoles, RevisionFlags):
    """The flags of an application. All except the three roles follow from what a revision holds."""

    is_managed: bool | None = None
    is_custom: bool | None = None
    is_llm: bool | None = None
    is_hook: bool | None = None
    is_code: bool | None = None
    is_match: bool | None = None
    is_feedback: bool | None = None
    is_agent: bool | None = None
    is_skill: bool | None = None
    is_chat: bool | None = None
    has_url: bool | None = None
    has_script: bool | None = None
    has_handler: bool | None = None
    is_static: bool | None = None


class ApplicationFlagsFilter(ApplicationFlags, FlagsFilter):
    """Flags in a query: an unknown one is rejected."""

    def conditions(self) -> FlagConditions:
        """Split the flags: roles are stored on the artifact, all others on the revision. The role of the family is
        always true.
        """
        given = self.given()
        roles = {name: given[name] for name in ROLES if name in given and name != self.role}
        derived = {name: value for name, value in given.items() if name not in ROLES}
        return FlagConditions(json_text(roles) if roles else None, json_text(derived) if derived else None)


ROLES: Final = tuple(ApplicationRoles.model_fields)
"""Flags of the artifact. A family sets one of them always."""

URI_KEYS: Final = ("llm", "hook", "code", "match", "feedback", "agent", "skill")
"""Keys of a URI that a flag stands for: ``is_llm``."""

PLATFORM: Final = "agenta"
CHAT: Final = "chat"
CUSTOM: Final = "custom"


class EvaluatorRoles(ApplicationRoles):
    """The roles of an evaluator. `is_evaluator` is always true."""

    role: ClassVar[str] = "is_evaluator"


class EvaluatorFlags(EvaluatorRoles, ApplicationFlags):
    """The flags of an evaluator. All except the three roles follow from what a revision holds."""


class EvaluatorFlagsFilter(EvaluatorFlags, ApplicationFlagsFilter):
    """Flags in a query: an unknown one is rejected."""


class ApplicationData(RevisionData):
    """The data of a revision of an application or an evaluator."""

    uri: Text | None = Field(None, description="provider:kind:key:version")
    url: WebAddress | None = None
    headers: Named[Text, HeaderValue] | None = None
    runtime: Runtime | None = None
    script: Text | None = None
    schemas: Schemas | None = None
    parameters: Meta | None = Field(None, description="Any JSON object: prompts, models, temperatures, …")

    def flags(self) -> str:
        """Return the fourteen flags that follow from what a revision holds, as JSON text."""
        provider, kind, key = _uri_parts(self.uri)
        return json_text(
            {
                "is_managed": provider == PLATFORM,
                "is_custom": kind == CUSTOM,
                **{f"is_{uri_key}": key == uri_key for uri_key in URI_KEYS},
                "is_chat": key == CHAT or _takes_messages(self),
                "has_url": self.url is not None,
                "has_script": self.script is not None,
                "has_handler": False,
                "is_static": False,
            }
        )


def _uri_parts(uri: str | None) -> tuple[str | None, str | None, str | None]:
    """Return provider, kind and key of ``provider:kind:key:version``. A shorter URI lacks version, then provider,
    then kind.
    """
    parts = uri.split(":")[:3] if uri else []
    provider, kind, key = [None] * (3 - len(parts)) + parts
    return provider, kind, key


def _takes_messages(data: ApplicationData) -> bool:
    inputs = data.schemas.inputs if data.schemas is not None else None
    properties = (inputs or {}).get("properties")
    return isinstance(properties, dict) and "messages" in properties


APPLICATION: Final = History(
    labels=APPLICATIONS,
    sample=Sample(slug="faq-bot", name="FAQ bot", data={"parameters": {"prompt": "Be brief."}}),
    data=ApplicationData,
    role_flags=ApplicationRoles,
    revision_flags=ApplicationFlags,
    flags_filter=ApplicationFlagsFilter,
)
EVALUATOR: Final = History(
    labels=EVALUATORS,
    sample=Sample(
        slug="helpfulness",
        name="Helpfulness",
        data={"schemas": {"outputs": {"type": "object", "properties": {"outputs": {"type": "object"}}}}},
    ),
    data=ApplicationData,
    role_flags=EvaluatorRoles,
    revision_flags=EvaluatorFlags,
    flags_filter=EvaluatorFlagsFilter,
    archives_with_variant=True,
)
