"""Which proxy a call goes through, from variables that are passed in."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy's URL for an address, None for a direct way.

    environ   HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY in either spelling; the small one goes first
    """
    parts = urlsplit(url)
    proxy = _variable(environ, f"{parts.scheme}_proxy") or _variable(environ, "all_proxy")
    if not proxy or _is_passed_by(parts.hostname or "", parts.netloc, _variable(environ, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_passed_by(host: str, host_and_port: str, no_proxy: str) -> bool:
    """Return whether a list of hosts and domains names this host; a domain stands for all hosts below it too."""
    for entry in no_proxy.split(","):
        name = entry.strip().lower().removeprefix("*").removeprefix(".")
        if entry.strip() == "*" or (name and (host == name or host.endswith(f".{name}") or host_and_port == name)):
            return True
    return False


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""
