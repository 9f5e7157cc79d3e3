"""docs/subjects.md names what the code can say, and nothing else."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from fairtrial.redact import MIN_SECRET
from fairtrial.spec.models import CommandTask, RecordedTask
from fairtrial.subjects import code_files, command, process, starting

PAGE = (Path(__file__).parents[2] / "docs" / "subjects.md").read_text(encoding="utf-8")


def words_of_table(heading: str) -> set[str]:
    """Return the first column of the table whose first heading that is."""
    table = re.search(rf"^\| {heading} \|.*\n\|---.*\n((?:\|.*\n)+)", PAGE, flags=re.MULTILINE)
    assert table is not None
    return set(re.findall(r"^\| `(\w+)` \|", table.group(1), flags=re.MULTILINE))


def test_r35_every_kind_of_failure_of_a_command_is_on_the_page() -> None:
    kinds = set(re.findall(r'return "(\w+)", ', inspect.getsource(command)))
    assert kinds >= {"exit_code", "timeout"}
    assert words_of_table("kind") == kinds


def test_r35_every_reason_why_a_program_could_not_start_is_on_the_page() -> None:
    source = inspect.getsource(starting)
    # Those by an error number, those by the kind of exception, and the one for all the rest.
    kinds = set(re.findall(r'errno\.\w+: \(\s*"(\w+)"', source)) | set(re.findall(r'NotStarted\(\s*"(\w+)"', source))
    kinds |= set(re.findall(r'\(\s*"(\w+)", f"could not be started', source))
    assert kinds >= {"missing", "busy", "nul_byte", "not_started"}
    assert words_of_table("could not start") == kinds - starting.OUR_SIDE


@pytest.mark.parametrize(
    "text",
    [
        *(f"`{name}`" for name in starting.OUR_SIDE),
        f"first {process.OUTPUT_CAP:,} bytes",
        f"The end of stderr, {command.ERROR_TAIL // 1024} kB",
        f"More than {code_files.MAX_FILES:,} files",
        f"shorter than {MIN_SECRET} characters",
        *(f"`{name}`" for name in code_files.SKIPPED),
        *re.findall(r"FAIRTRIAL_\w+", inspect.getsource(command)),
        *(f'`"{choice}"`' for choice in ("text", "json", "none")),
    ],
)
def test_what_the_code_has_is_on_the_page(text: str) -> None:
    assert text in PAGE


def test_the_two_kinds_of_task_have_their_section() -> None:
    headings = re.findall(r"^## (\w+)$", PAGE, flags=re.MULTILINE)
    assert headings == [model.model_fields["kind"].annotation.__args__[0] for model in (CommandTask, RecordedTask)]  # type: ignore[union-attr]


def test_half_a_second_is_what_a_program_gets_to_tidy_up() -> None:
    """By hand: 0.5 s of grace and 0.25 s of lingering, as the page words them."""
    assert process.GRACE_S == 0.5
    assert "get TERM, half a second later\n  KILL" in PAGE
    assert process._LINGER_S == 0.25
    assert "get a quarter of a\n  second for their last lines" in PAGE
