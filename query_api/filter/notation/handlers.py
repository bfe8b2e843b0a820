"""``POST /filters/parse``: what a written filter means, for everything that people type filters into."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from common.errors import InvalidFilter
from query_api.filter.notation.read import TEXT_CHARS_MAX, Written, WrongFilter, read_filter
from query_api.filter.parse import ConditionModel, FilteringModel, parse_filter
from query_api.request.json_body import ApiModel, Strict, json_response
from query_api.request.route import Request, Response, Route


class WrittenFilter(Strict):
    """A filter as people write it."""

    text: str = Field(
        max_length=TEXT_CHARS_MAX,
        description=(
            "Conditions with `and`, `or`, `not` and brackets, such as `cost > $0.01 and (service is shop or not model"
            " exists)`, the id of a trace or span, or words to search for."
        ),
    )


class FilterPart(ApiModel):
    """A part of the filter, all of which must be true."""

    text: str = Field(description="What was written.")
    filtering: ConditionModel | FilteringModel = Field(description="What it means: a condition or a group.")


class FilterProblem(ApiModel):
    """Why the text is not a filter."""

    message: str = Field(description="A sentence for people.")
    begin: int = Field(description="The first wrong character, from 0.")
    end: int = Field(description="The character after the last wrong one; `begin` if something is missing there.")
    allowed: list[str] = Field(description="Words that could stand there. Empty if there is no list of them.")


class FilterParsed(ApiModel):
    """What a written filter means: `filtering` and `parts`, or the `problem`."""

    filtering: FilteringModel | None = Field(None, description="The filter, for every route that takes one.")
    parts: list[FilterPart] | None = Field(None, description="Its parts, with what was written of each.")
    is_id: bool | None = Field(None, description="True if the text is the id of a trace or a span, and nothing else.")
    searched: bool | None = Field(
        None, description="True if the text has no condition, so that the filter searches for its words."
    )
    hint: str | None = Field(None, description="The condition that may have been meant, if words are searched for.")
    problem: FilterProblem | None = Field(None, description="Why the text is not a filter.")


async def parse_written(request: Request) -> Response:
    """Return the filter that a text means, or the place where it is wrong and what could stand there.

    The explorer, the command line and the tools of MCP read filters by this route, so they read them alike.
    """
    text: str = request.body.text
    try:
        written = read_filter(text)
        filtering = FilteringModel.model_validate(written.filtering)
        try:
            await parse_filter(filtering)
        except InvalidFilter as exc:
            raise _placed(exc, written, text) from exc
    except WrongFilter as problem:
        found = FilterProblem(message=str(problem), begin=problem.begin, end=problem.end, allowed=list(problem.allowed))
        return json_response(FilterParsed(problem=found))
    parts = [
        FilterPart(text=text[part.begin : part.end], filtering=meaning)
        for part, meaning in zip(written.parts, filtering.conditions, strict=True)
    ]
    return json_response(
        FilterParsed(
            filtering=filtering,
            parts=parts,
            is_id=written.is_id or None,
            searched=written.searched or None,
            hint=written.hint,
        )
    )


def _placed(error: InvalidFilter, written: Written, text: str) -> WrongFilter:
    """Return the same error, at its place in the text."""
    part = written.place_of(error.path)
    message = error.detail.removeprefix(f"{error.path}: ")
    begin, end = (0, len(text)) if part is None else (part.begin, part.end)
    return WrongFilter(message[:1].upper() + message[1:], begin, end)


FILTER_ROUTES: Final = (
    Route("POST", "/filters/parse", parse_written, "Read a written filter.", "Spans", FilterParsed,
          body=WrittenFilter, body_required=True),
)  # fmt: skip
