"""Problems of requests that may hold secrets: responses, which others may log, do not repeat them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_args

from pydantic import BaseModel


@lru_cache(maxsize=1_024)
def _members_of(annotation: Any) -> Mapping[str, bool]:
    """Return the names of all members of a type, those of objects below it included, and whether each may be shown.

    What must not be shown is a field with ``repr=False``.
    """
    names: dict[str, bool] = {}
    seen, left = set(), [annotation]
    while left:
        each = left.pop()
        if isinstance(each, type) and issubclass(each, BaseModel):
            if each in seen:
                continue
            seen.add(each)
            for name, field in each.model_fields.items():
                names[field.alias or name] = names.get(field.alias or name, True) and field.repr
                left.append(field.annotation)
        else:
            left += [part for part in get_args(each) if not isinstance(part, str)]
    return names


def without_secrets(problem: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Return a problem of a request that may hold secrets with its ``input`` only if that is a single public value.

    An object could hold a secret, and so could a member with a name that is misspelt.
    """
    names = _members_of(model)
    if all(names.values()):
        return problem
    is_public = all(names.get(step, False) for step in problem["loc"][-1:] if isinstance(step, str))
    is_inside = any(names.get(step) is False for step in problem["loc"])
    if is_public and not is_inside and not isinstance(problem["input"], dict | list):
        return problem
    return {**problem, "input": None}
