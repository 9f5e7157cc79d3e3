"""What the local server and its clients are told by environment; the names are Prefect 3.9's.

Both take everything they need as arguments: the server keeps nothing of the shell that happened to start it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from flows.server_record import Record

# The server outlives the command by days, so it gets what a process needs and no key that happens to be exported.
# FAIRTRIAL_TEST_ is how the test ledger finds a server that a test left behind.
_PASSED_ON: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
_PASSED_ON_PREFIXES: Final = ("LC_", "FAIRTRIAL_TEST_")

_NO_REPORTING: Final = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
}

# Measured: with batches of one the server is two minutes behind a flow of 1,500 task runs, with 200 twelve seconds.
_BATCHES: Final = {
    f"PREFECT_SERVER_SERVICES_{service}_{size}": "200"
    for service in ("TASK_RUN_RECORDER", "EVENT_PERSISTER")
    for size in ("BATCH_SIZE", "READ_BATCH_SIZE")
}


def server_environment(record: Record, *, home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of the server process; `environ` is its starter's."""
    parts = urlsplit(record.url)
    kept = {
        name: value for name, value in environ.items() if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    return {
        **kept,
        "PYTHONUNBUFFERED": "1",
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_API_HOST": str(parts.hostname),
        "PREFECT_SERVER_API_PORT": str(parts.port),
        "PREFECT_SERVER_API_AUTH_STRING": record.auth,
        "PREFECT_SERVER_API_CSRF_PROTECTION_ENABLED": "true",
        "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": f"http://{parts.netloc},http://localhost:{parts.port}",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_SERVER_UI_ENABLED": "true",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "PREFECT_LOGGING_COLORS": "false",
        **_BATCHES,
        **_NO_REPORTING,
    }


def client_settings(*, url: str, auth: str, home: Path) -> dict[str, str]:
    """Return what points a process's Prefect at the server and keeps it out of the user's terminal."""
    return {
        "PREFECT_API_URL": url,
        "PREFECT_API_AUTH_STRING": auth,
        "PREFECT_HOME": str(home),
        "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "true",
        # Pauses of 2 and 4 s instead of 2 to 32: with the default a run whose server is gone ends minutes late.
        "PREFECT_CLIENT_MAX_RETRIES": "2",
        "PREFECT_API_REQUEST_TIMEOUT": "20",
        "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        # Logs of a flow go to the server and show in its UI; what the user must know is said by us.
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        **_NO_REPORTING,
    }
