"""What the commands say of a subscription and of an alert alike: how one is addressed and printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from rich.text import Text

from clearspan.client.output import TableColumn, console, note, print_objects, safe

_STYLES: Final = {"active": "green", "retrying": "yellow", "paused": "red"}


class DeliveryKind(NamedTuple):
    """Subscriptions or alerts. ``noun`` is the member of requests and responses, such as ``alert``."""

    noun: str
    sends: str
    """What a target receives: a span or a message."""
    columns: Sequence[TableColumn]
    row: Callable[[Mapping[str, Any]], Sequence[object]]
    """The values of the columns."""
    details: Callable[[Mapping[str, Any]], Sequence[tuple[str, object]]]
    """The names and values that are printed of one; ``None`` is left out."""

    @property
    def path(self) -> str:
        """The path of all of them."""
        return f"/{self.noun}s/"

    def path_of(self, slug: str, action: str = "") -> str:
        """Return the path of one, or of an action on it such as ``/pause``."""
        return f"{self.path}{quote(slug, safe='')}{action}"

    def print_one(self, answer: Mapping[str, Any], *, as_json: bool) -> int:
        """Print the one of a response, with the warning and the secret if there are any; return the exit code."""
        found = answer[self.noun]
        if warning := answer.get("warning"):
            note(warning)
        if as_json:
            print_objects([found])
            return 0
        out = console()
        for name, value in self.details(found):
            if value is not None:
                line = safe(f"{name:<11}", "dim")
                out.print(line.append_text(value if isinstance(value, Text) else safe(value)), soft_wrap=True)
        if "secret" in found["target"]:
            note("The secret signs what is sent. It is not shown again.")
        return 0


def status_text(found: Mapping[str, Any]) -> Text:
    """Return the status in its color."""
    return safe(found["status"], _STYLES.get(found["status"], ""))


def failure_text(found: Mapping[str, Any]) -> str | None:
    """Return the reason of the last error, unless all is well."""
    return (found.get("last_error") or {}).get("reason") if found["status"] != "active" else None
