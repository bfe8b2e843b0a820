"""Reject what web pages send through the browser of somebody who runs Clearspan without authentication.

Two ways lead there. A page of another site sends a request to the address of the API: the browser says so. Or the name
of the site resolves to that address (DNS rebinding): then page and API are one site to the browser, and only the header
``Host`` still names the site.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

from yarl import URL

from common.errors import Forbidden

SETTING: Final = "CLEARSPAN_HTTP__ALLOWED_HOSTS"


def check_not_a_page(headers: Mapping[str, str], *, allowed_hosts: str) -> None:
    """Raise ``Forbidden`` for a request of another web site. ``allowed_hosts`` are further names of the API, separated
    by commas.

    Browsers set ``Sec-Fetch-Site`` and ``Host``, and pages cannot change them; programs do not send the first.
    """
    if headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
        raise Forbidden("While authentication is off, requests from other web sites are not accepted.")
    host = headers.get("Host", "")
    if host and not _is_own(_name_of(host), allowed_hosts):
        raise Forbidden(
            "While authentication is off, the host of a request must be an IP address, localhost or a name in"
            f" {SETTING}; got '{host[:200]}'."
        )


def _name_of(host: str) -> str:
    """Return the host without its port, in lower case; empty if it cannot be read."""
    try:
        url = URL(f"http://{host}")
        return (url.host or "").rstrip(".").lower() if url.user is None else ""
    except ValueError:
        return ""


def _is_own(name: str, allowed_hosts: str) -> bool:
    """Whether no name server leads a page of another site here: an address, a name of loopback, or an allowed one."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    if name in {allowed.strip().rstrip(".").lower() for allowed in allowed_hosts.split(",")} - {""}:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
