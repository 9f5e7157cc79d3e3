"""A disk that fills up in the middle of a run: one clear error, no further call, all of it readable, and a way on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.prefect, pytest.mark.fire]

IN_FLIGHT = 4
N_CASES = 40
GRADERS = ({"kind": "regex", "pattern": "^yes"},)
HOW = ["--concurrency", str(IN_FLIGHT), "--slice", "10"]


class Disk:
    """A small disk of its own."""

    def __init__(self, folder: Path, mb: int):
        self.folder = folder
        folder.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mb}m", "tmpfs", folder], capture_output=True)
        if made.returncode:
            pytest.skip(f"needs a disk that can fill up, and may not mount one: {made.stderr.decode().strip()}")

    def grow(self, mb: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={mb}m", self.folder], check=True)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Any]:
    """Mount a small disk: `disk(2)` has 2 MB."""
    mounted: list[Disk] = []

    def mount(mb: int) -> Disk:
        mounted.append(Disk(tmp_path / f"disk-{len(mounted)}", mb))
        return mounted[-1]

    yield mount
    for each in mounted:
        each.close()


@pytest.fixture(scope="module")
def undisturbed(make_fire: Any) -> Any:
    """The body of the same run on a disk with room. Whether outputs are long is in no body."""
    fire = make_fire()
    fire.write(N_CASES, pause_s=0.0, graders=GRADERS)
    run = fire.start("run", *fire.arms, *HOW, "--json")
    assert run.wait() == 0, run.err
    return run.json["body"]


def test_k10_r10_on_disks_of_1_2_4_and_8_mb_it_stops_by_name_and_goes_on_when_there_is_room(
    make_fire: Any, disk: Any, undisturbed: Any
) -> None:
    filled = []
    for mb in (1, 2, 4, 8):
        small, fire = disk(mb), make_fire()
        # 80 outputs of these: about twice what the disk holds.
        fire.write(N_CASES, pause_s=0.0, size=25_000 * mb, graders=GRADERS)
        fire.use(home=small.folder / "home")
        filled.append((fire, small))
    fill_up_and_go_on(filled, undisturbed)


def test_r10_the_database_alone_or_the_objects_alone_may_be_on_the_full_disk(
    make_fire: Any, disk: Any, tmp_path: Path, undisturbed: Any
) -> None:
    filled = []
    for size, is_database in ((8_000, True), (25_000, False)):
        small, fire = disk(1), make_fire()
        # Up to 8,192 bytes an output lies in its row.
        fire.write(N_CASES, pause_s=0.0, size=size, graders=GRADERS)
        if is_database:
            fire.use(home=small.folder / "home", FAIRTRIAL_STORAGE_URL=str(tmp_path / "objects"))
        else:
            fire.use(FAIRTRIAL_STORAGE_URL=str(small.folder / "objects"))
        filled.append((fire, small))
    fill_up_and_go_on(filled, undisturbed)


def fill_up_and_go_on(filled: list[tuple[Any, Disk]], undisturbed: Any) -> None:
    """Run several projects to the end of their disks, side by side, and on again once there is room."""
    runs = [fire.start("run", *fire.arms, *HOW) for fire, _ in filled]
    for run, (fire, small) in zip(runs, filled, strict=True):
        assert run.wait() == 4, (run.out, run.err)
        check_stopped(fire, small, run)
    for fire, small in filled:
        check_readable(fire)
        small.grow(64)
    runs = [fire.start("run", "--resume", fire.experiment, *HOW[:2], "--json") for fire, _ in filled]
    for run, (fire, small) in zip(runs, filled, strict=True):
        assert run.wait() == 0, (small.folder, run.err)
        assert run.json["body"] == undisturbed
        assert fire.ledger().total() - fire.n_trials <= IN_FLIGHT
        assert fire.rows("select sum(n_done), sum(n_planned) from summary") == [(fire.n_trials, fire.n_trials)]


def check_stopped(fire: Any, small: Disk, run: Any) -> None:
    assert run.err.count("error:") == 1, run.err
    assert "no space left" in run.err
    assert str(small.folder) in run.err
    assert f"go on with: exp run --resume {fire.experiment}" in run.err
    assert "Traceback" not in run.err
    fire.wait_until_gone()
    stored, called = fire.stored(), fire.ledger()
    assert 0 < stored.total() < fire.n_trials
    # The error is the end: what had been called by then was in flight.
    assert called.total() - stored.total() <= IN_FLIGHT


def check_readable(fire: Any) -> None:
    commands = (["list", "--json"], ["show", fire.experiment], ["trials", fire.experiment, "--limit", "1000", "--json"])
    listed, shown, trials = [fire.start(*command) for command in commands]
    for command in (listed, shown, trials):
        assert (command.wait(), command.err) == (0, "")
    assert [(each["id"], each["state"]) for each in listed.json] == [(fire.experiment, "partial")]
    assert fire.experiment in shown.out
    kept = [trial for trial in trials.json["trials"] if trial["outcome"] == "graded"]
    assert {(trial["arm"], trial["case"]) for trial in kept} == set(fire.stored())
    size = int((fire.folder / "size").read_text())
    assert all(len(trial["output"]) >= size for trial in kept)
