"""Asking a Prefect server whether it answers, without importing Prefect.

A question has one deadline for everything, names and redirects included: a time limit of a socket starts anew with
every byte, so it is no deadline.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_MOST_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a server cannot be used, and what to do about it."""

    message: str
    hint: str


def is_healthy(url: str, *, auth: str, timeout_s: float) -> bool:
    """Return whether the server at `url` (…/api) is up and takes this login; any failure is a no."""
    opener = _opener(url)
    try:
        return (
            _status(opener, f"{url}/health", {}, timeout_s) == 200
            and _status(opener, f"{url}/admin/version", basic(auth), timeout_s) == 200
        )
    except (OSError, http.client.HTTPException):
        return False


def reach(url: str, *, auth: str | None, key: str | None, source: str, timeout_s: float) -> Problem | None:
    """Return None when the server answers and takes the login, else the problem, within `timeout_s` seconds."""
    named = f"{source} ({_shown(url)})"
    if not _is_http(url):
        return Problem(f"{named} is no http address.", "It looks like http://HOST:4200/api.")
    login = basic(auth) if auth else {"Authorization": f"Bearer {key}"} if key else {}
    deadline = time.monotonic() + timeout_s
    answer: list[Problem | None] = []
    # Looking up a name cannot be interrupted, so the question is asked aside and left behind when time is up.
    asking = threading.Thread(target=lambda: answer.append(_ask(url.rstrip("/"), login, named, deadline)), daemon=True)
    asking.start()
    asking.join(timeout_s)
    return answer[0] if answer else _silent(named, f"no answer within {timeout_s:.0f} s")


def basic(auth: str) -> dict[str, str]:
    """Return the header of a login `name:password`."""
    return {"Authorization": "Basic " + base64.b64encode(auth.encode()).decode("ascii")}


def _ask(url: str, login: Mapping[str, str], named: str, deadline: float) -> Problem | None:
    opener = _opener(url)

    def ask(path: str, headers: Mapping[str, str]) -> int:
        return _status(opener, url + path, headers, max(0.1, deadline - time.monotonic()))

    try:
        # Without the login first: it is not given to whatever else may listen there.
        health = ask("/health", {})
        if health >= 500:
            return _silent(named, f"it answers with status {health}")
        if health == 404:
            return _silent(named, "something answers there, but it is no Prefect API; the address ends in /api")
        version = ask("/admin/version", login)
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        # A certificate that we do not trust is still an answer; Prefect has settings of its own for that.
        return None if isinstance(reason, ssl.SSLCertVerificationError) else _silent(named, _words(reason))
    if version in (401, 403):
        return Problem(
            f"the Prefect server of {named} does not accept the login.",
            "Set PREFECT_API_AUTH_STRING to its name:password, or PREFECT_API_KEY where it uses keys.",
        )
    return None


def _silent(named: str, why: str) -> Problem:
    return Problem(
        f"the Prefect server of {named} cannot be reached: {why}.",
        "Start it or correct the setting; without it the local server is used.",
    )


def _opener(url: str) -> OpenerDirector:
    # Prefect's client takes the proxies of the environment for other machines; this machine needs none.
    proxies: dict[str, str] | None = {} if urlsplit(url).hostname in _LOOPBACK else None
    return build_opener(ProxyHandler(proxies), HTTPSHandler())


def _status(opener: OpenerDirector, url: str, headers: Mapping[str, str], timeout_s: float) -> int:
    try:
        with opener.open(Request(url, headers=dict(headers)), timeout=timeout_s) as response:
            response.read(_MOST_BYTES)
            return int(response.status)
    except HTTPError as error:
        with error:
            return error.code


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _shown(url: str) -> str:
    """Return the address without the name and password that it may hold."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "not shown, for it may hold a password"
    if parts.username is None and parts.password is None:
        return url
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _words(reason: object) -> str:
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    text = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
    return text or type(reason).__name__
