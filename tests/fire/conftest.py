"""What the kill and fault tests share: one process that forks runs, and lanes that use it one after the other."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.rig.bench import Bench
from tests.rig.lanes import Lane, MakeLane
from tests.rig.meter import Knobs, Meter
from tests.rig.zygote import Zygote


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.fire)
            if shutil.which("bash") is None:
                item.add_marker(pytest.mark.skip(reason="needs bash: the task that asks the meter is written in it"))


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """The process that forks runs; what runs write to stderr must stay empty."""
    with Zygote(tmp_path_factory.mktemp("zygote") / "stderr") as zygote:
        yield zygote


@pytest.fixture(autouse=True)
def no_traceback(request: pytest.FixtureRequest) -> Iterator[None]:
    """No run may end with an exception that no user should see."""
    yield
    if "zygote" in request.fixturenames:
        errors = request.getfixturevalue("zygote").errors
        text = errors.read_text(errors="replace")
        errors.write_text("")
        assert not text, f"a run wrote to stderr:\n{text}"


@pytest.fixture
def make_lane(tmp_path: Path, zygote: Zygote) -> Iterator[MakeLane]:
    """Make a bench with a meter of its own: `make_lane(Knobs(delay_s=0.01))`; nothing of it may be left running."""
    made: list[Bench] = []
    with ExitStack() as stack:

        def make(knobs: Knobs) -> Lane:
            folder = tmp_path / f"bench{len(made)}"
            made.append(Bench(folder / "lab", stack.enter_context(Meter(folder / "meter", knobs))))
            return Lane(made[-1], zygote)

        yield make
        left = [pid for bench in made for pid in bench.survivors()]
        for bench in made:
            bench.engine.dispose()
    assert not left, f"processes outlived their run by 5 s: {left}"
