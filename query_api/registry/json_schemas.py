"""Whether an object is a JSON Schema: by the metaschema of the draft that it names, else by that of draft 2020-12.

Nothing is fetched: what else a schema may name as its metaschema, or refer to, is not looked at.
"""

from __future__ import annotations

from typing import Any, Final

from jsonschema_rs import ValidationError, meta

DRAFTS: Final = frozenset(
    f"{scheme}://json-schema.org/{draft}/schema"
    for scheme in ("http", "https")
    for draft in ("draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12")
)


def check_json_schema(value: dict[str, Any]) -> dict[str, Any]:
    """``value`` as it is. Raises ``ValueError`` that says what is wrong, and where."""
    named = value.get("$schema", "")
    if not isinstance(named, str):
        raise ValueError("This is no JSON Schema: at /$schema: not a text.")  # noqa: TRY004 - pydantic takes no other
    is_known = named.rstrip("#") in DRAFTS
    try:
        # The checker fetches a metaschema that it does not know, from wherever a user says.
        meta.validate(value if is_known else {name: each for name, each in value.items() if name != "$schema"})
    except ValidationError as exc:
        where = "".join(f"/{part}" for part in exc.instance_path)
        raise ValueError(f"This is no JSON Schema: at {where or '/'}: {exc.message[:500]}") from exc
    return value
