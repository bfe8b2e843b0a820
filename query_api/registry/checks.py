"""Checks of a request before it reaches Postgres: ids in the path and the body, slugs, numbers; and slugs that are
taken.

Source: contract §5, reference ``applications-api`` §1.5, §2.5, §2.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from pydantic import BaseModel

from common.errors import Conflict, InvalidInput
from common.postgres.errors import UniqueViolation
from query_api.request.errors import InvalidRequest, MemberConflict, SlugTaken
from query_api.request.json_body import bounded_input, validated
from query_api.request.route import Request

RESERVED_PREFIX: Final = "__ag__"


class _PathId(BaseModel):
    id: UUID


def path_id(request: Request) -> UUID:
    """Return the only id in the path. Raises ``InvalidRequest``."""
    ((place, text),) = request.path.items()
    try:
        return validated(_PathId, {"id": text}, at="path").id
    except InvalidRequest as exc:
        raise InvalidRequest([{**problem, "loc": ["path", place]} for problem in exc.problems]) from exc


def edited_id(request: Request, body_id: UUID | None) -> UUID:
    """Return the id in the path. Raises ``InvalidInput`` unless the body repeats it."""
    id_in_path = path_id(request)
    if body_id is None:
        raise InvalidInput(f"The body has no id. It must repeat the id of the path, '{id_in_path}'.")
    if body_id != id_in_path:
        raise InvalidInput(f"The id in the path and the id in the body do not match: '{id_in_path}', '{body_id}'.")
    return id_in_path


def missing(*loc: str) -> InvalidRequest:
    """Return the error for a member that the body lacks."""
    return InvalidRequest([{"type": "missing", "loc": ["body", *loc], "msg": "Field required", "input": {}}])


def number_up_to(max_value: int, sent: int | None, *, default: int, member: str) -> int:
    """Return a number of the body; without one the default, or ``max_value`` if that is less.

    Raises ``InvalidRequest`` if the number is larger than the setting ``max_value``.
    """
    if sent is None:
        return min(default, max_value)
    if sent > max_value:
        problem = {
            "type": "less_than_equal",
            "loc": ["body", member],
            "msg": f"Input should be less than or equal to {max_value}",
            "input": bounded_input(sent),
            "ctx": {"le": max_value},
        }
        raise InvalidRequest([problem])
    return sent


def refuse_reserved(slug: str | None) -> None:
    """Raise ``InvalidInput`` for a slug with the reserved prefix."""
    if slug is not None and slug.startswith(RESERVED_PREFIX):
        raise InvalidInput(f"'slug' must not begin with '{RESERVED_PREFIX}', which is reserved.")


@contextmanager
def reporting_conflicts(*, slug: str | None, chosen_id: UUID | None = None) -> Iterator[None]:
    """Turn ``UniqueViolation`` into a conflict that names the member. Without ``slug`` a random one of 2^48 was
    taken.
    """
    try:
        yield
    except UniqueViolation as violation:
        if violation.constraint_name == "artifacts_pkey":
            raise MemberConflict(
                "Entity with same keys already exists.", conflict={"id": str(chosen_id)}
            ) from violation
        if slug is None:
            raise Conflict("The generated slug is already in use: send the request again.") from violation
        raise SlugTaken(slug) from violation
