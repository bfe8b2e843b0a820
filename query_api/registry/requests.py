"""What a request names, checked before anything is asked of Postgres: ids in paths and bodies, slugs, and slugs that are taken.

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
    """The id in the path, in any spelling. Raises ``InvalidRequest``."""
    ((place, text),) = request.path.items()
    try:
        return validated(_PathId, {"id": text}, at="path").id
    except InvalidRequest as exc:
        raise InvalidRequest([{**problem, "loc": ["path", place]} for problem in exc.problems]) from exc


def edited_id(request: Request, body_id: UUID | None) -> UUID:
    """The id in the path, which the body has to repeat. Raises ``InvalidInput``."""
    named = path_id(request)
    if body_id is None:
        raise InvalidInput(f"The body has no id: it has to repeat that of the path, '{named}'.")
    if body_id != named:
        raise InvalidInput(f"The id in the path and the id in the body do not match: '{named}', '{body_id}'.")
    return named


def missing(*loc: str) -> InvalidRequest:
    """What to raise for a member that the body lacks."""
    return InvalidRequest([{"type": "missing", "loc": ["body", *loc], "msg": "Field required", "input": {}}])


def number_up_to(most: int, sent: int | None, *, default: int, member: str) -> int:
    """Return a number of the body; if it is absent the default, or ``most`` if that is less.

    Raises ``InvalidRequest`` if it is larger than the setting ``most`` allows.
    """
    if sent is None:
        return min(default, most)
    if sent > most:
        problem = {
            "type": "less_than_equal",
            "loc": ["body", member],
            "msg": f"Input should be less than or equal to {most}",
            "input": bounded_input(sent),
            "ctx": {"le": most},
        }
        raise InvalidRequest([problem])
    return sent


def refuse_reserved(slug: str | None) -> None:
    """Raise ``InvalidInput`` for a slug that is not for users."""
    if slug is not None and slug.startswith(RESERVED_PREFIX):
        raise InvalidInput(f"'slug' must not begin with '{RESERVED_PREFIX}': these are reserved.")


@contextmanager
def telling_conflicts(*, slug: str | None, chosen_id: UUID | None = None) -> Iterator[None]:
    """Turn ``UniqueViolation`` into what the caller sent and somebody else has. Without ``slug`` one is made up, 1 of 2^48."""
    try:
        yield
    except UniqueViolation as taken:
        if taken.constraint_name == "artifacts_pkey":
            raise MemberConflict("Entity with same keys already exists.", conflict={"id": str(chosen_id)}) from taken
        if slug is None:
            raise Conflict("A slug that was made up is in use already: send the request again.") from taken
        raise SlugTaken(slug) from taken
