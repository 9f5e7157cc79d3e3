"""What can be typed, set or met as an error is named in the documentation, and what the documentation names is there.

Each rule compares a page with the table or the help it is about and returns complaints; the forged pages show that it
complains. Whether links between files resolve is checked in tests/layout.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from faces.cli.main import COMMANDS
from faces.cli.settings import VARIABLES
from fairtrial.engine.open import DEFAULT_CONCURRENCY
from fairtrial.engine.plan import SLICE_BLOCKS
from fairtrial.errors import CODES, Status
from fairtrial.spec.models import Limits

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PRODUCT = ("fairtrial", "stats", "tasks", "flows", "faces", "deployments")

# Features.md, decision 6: what a shell may rely on.
EXITS = (0, 1, 2, 3, 4, 64, 70, 130, 143)
SUBCOMMANDS = ("dataset add", "dataset list", "dataset show")
# Of every command, so its page does not repeat them.
EVERYWHERE = {"--help", "-h", "--version"}

ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)
LONG_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
SHORT_FLAG = re.compile(r"(?<=\s)-[a-z](?=\s)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
# A name that ends in an underscore is a prefix, not a variable.
VARIABLE = re.compile(r"(?<!\w)FAIRTRIAL_[A-Z_]*[A-Z](?!\w)")
ANCHOR = re.compile(r"\]\(([^)\s#]*)#([^)\s]+)\)")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """Return the cells of every row of every table, heads and rules too."""
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in ROW.findall(text)]


def ticked(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def sections(text: str) -> dict[str, str]:
    """Return what stands under each heading of the second level, by that heading."""
    parts = re.split(r"^## +(.+?) *$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


# --- rules ------------------------------------------------------------------------------------------------------------


def wrong_codes(text: str, codes: Mapping[str, Status]) -> list[str]:
    """A code has one row with its two statuses, the meaning of the table in the program, and a remedy."""
    found = {cells[0].strip("`"): cells for cells in rows(text) if len(cells) == 5 and cells[0].startswith("`")}
    told = [f"{code}: is no code" for code in found if code not in codes]
    for code, status in codes.items():
        cells = found.get(code)
        if cells is None:
            told.append(f"{code}: is not named")
        elif cells[1:4] != [str(status.exit), str(status.http), status.about]:
            told.append(f"{code}: {cells[1:4]} is not {status}")
        elif not cells[4]:
            told.append(f"{code}: no remedy")
    return told


def missing_exits(text: str, exits: Iterable[int]) -> list[int]:
    """An exit status that a shell can see has its meaning in the first table."""
    heads = {number for cells in rows(text) if len(cells) == 2 for number in re.findall(r"\d+", cells[0])}
    return [status for status in exits if str(status) not in heads]


def wrong_settings(text: str, variables: Mapping[str, str]) -> list[str]:
    """A variable of ours has one row, with the words of the table in the program."""
    found = {
        name: cells[1] for cells in rows(text) for name in ticked(cells[0]) if name.startswith("FAIRTRIAL_") and cells
    }
    missing = [f"{name}: is not named" for name in variables if name not in found]
    stale = [f"{name}: is no setting" for name in found if name not in variables]
    other = [f"{name}: other words" for name, said in found.items() if name in variables and said != variables[name]]
    return missing + stale + other


def variables_read(sources: Mapping[str, str]) -> set[str]:
    """Return the names of environment variables that a face reads: texts given to environ.get, environ[…] and quiet."""
    found = set()
    for text in sources.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in ("os.environ.get", "quiet"):
                found.add(node.args[0])
            elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
                found.add(node.slice)
    return {node.value for node in found if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def flags_in_help(shown: str) -> set[str]:
    """Return the flags that a --help lists: those at the start of a line of its panel."""
    found: set[str] = set()
    for line in shown.splitlines():
        # A description that goes on in the next line is indented further.
        if re.match(r"│ (\*  |   )?--", line):
            # Name and short name come first; the description begins after two spaces.
            names = line.strip("│ *").split("  ")[0] + " "
            found |= set(LONG_FLAG.findall(names)) | set(SHORT_FLAG.findall(names))
    return found - EVERYWHERE


def section_of(command: str, text: str) -> str | None:
    """Return the section of the page on commands that is about `exp COMMAND`, None when there is none."""
    first = f"exp {command.split()[0]}"
    for heading, body in sections(text).items():
        if first in [part.strip() for part in heading.split(",")]:
            return body if f"exp {command}" in heading + body else None
    return None


def unnamed_flags(command: str, shown: str, text: str) -> list[str]:
    """A flag stands, ticked, in its command's section."""
    body = section_of(command, text)
    if body is None:
        return [f"exp {command}: has no section"]
    named = {word for tick in ticked(body) for word in re.split(r"[\s=\[\]]+", tick)}
    return [f"exp {command} {flag}: is not named" for flag in sorted(flags_in_help(shown)) if flag not in named]


def stale_flags(helps: Mapping[str, str], text: str) -> list[str]:
    """A flag in a section is one of a command of that section."""
    told = []
    for heading, body in sections(text).items():
        there = {
            flag for command, shown in helps.items() for flag in flags_in_help(shown) if heading_has(heading, command)
        }
        named = {flag for tick in ticked(body) for flag in LONG_FLAG.findall(tick)}
        told += [f"{heading}: {flag}" for flag in sorted(named - there - EVERYWHERE)]
    return told


def heading_has(heading: str, command: str) -> bool:
    return f"exp {command.split()[0]}" in [part.strip() for part in heading.split(",")]


def lost_anchors(pages: Mapping[str, str]) -> list[str]:
    """A link to a part of a page leads to a heading that is there."""
    told = []
    for name, text in pages.items():
        for target, anchor in ANCHOR.findall(text):
            if "://" in target:
                continue
            other = str((Path("/") / Path(name).parent / target).resolve().relative_to("/")) if target else name
            if other in pages and anchor not in {slug(heading) for heading in HEADING.findall(pages[other])}:
                told.append(f"{name}: {target}#{anchor}")
    return told


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def unlisted(folder: Iterable[str], overview: str) -> list[str]:
    """The first page of a folder lists the others."""
    return [name for name in sorted(folder) if name != "README.md" and f"]({name}" not in overview]


# --- the pages keep them ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def helps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What `exp COMMAND --help` prints, of every command; from one process, as they are only read here."""
    commands = [name for name in COMMANDS if name != "dataset"] + list(SUBCOMMANDS)
    code = (
        "import sys\nfrom faces.cli.main import call\n"
        "for command in sys.argv[1:]:\n"
        "    print(f'\\0{command}\\0', flush=True)\n"
        "    call([*command.split(), '--help'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *commands],
        capture_output=True,
        check=True,
        cwd=tmp_path_factory.mktemp("helps"),
        timeout=120,
    )
    _, *parts = done.stdout.decode().split("\0")
    found = dict(zip(parts[::2], parts[1::2], strict=True))
    assert list(found) == commands
    return found


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    found = (path for package in PRODUCT for path in (ROOT / package).rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in found}


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    paths = [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def test_every_error_code_is_named_with_its_statuses_and_a_remedy() -> None:
    assert wrong_codes(page("errors.md"), CODES) == []


def test_every_exit_status_is_named() -> None:
    assert missing_exits(page("errors.md"), {*EXITS, *(status.exit for status in CODES.values())}) == []


def test_an_error_as_json_has_the_members_that_the_page_shows(exp: Any) -> None:
    (line,) = re.findall(r'^    (\{"schema": "fairtrial/error/1".*)$', page("errors.md"), re.MULTILINE)
    run = exp("show", "exp_0", "--json")
    assert list(json.loads(line)) == list(run.json)
    assert (run.code, run.json["code"]) == (64, "unknown_experiment")


def test_every_setting_is_named_in_the_words_of_the_program() -> None:
    assert wrong_settings(page("settings.md"), VARIABLES) == []


def test_every_variable_that_a_face_reads_is_on_the_page_of_settings(sources: dict[str, str]) -> None:
    read = variables_read({name: text for name, text in sources.items() if name.startswith("faces/")})
    # The reading itself must be seen, or the rule would hold for nothing.
    assert {*VARIABLES, "NO_COLOR", "CI"} <= read
    assert sorted(read - {name for cells in rows(page("settings.md")) for name in ticked(cells[0])}) == []


def test_every_variable_of_ours_in_the_program_is_in_the_documentation(
    sources: dict[str, str], pages: dict[str, str]
) -> None:
    used = {name for text in sources.values() for name in VARIABLE.findall(text)}
    named = {name for text in pages.values() for name in VARIABLE.findall(text)}
    assert {"FAIRTRIAL_HOME", "FAIRTRIAL_CASE_ID"} <= used
    assert sorted(used - named) == []


def test_every_variable_of_prefects_that_we_read_is_on_the_page_of_settings(sources: dict[str, str]) -> None:
    read = set(re.findall(r'"(PREFECT_[A-Z_]*[A-Z])"', sources["flows/prefect_env.py"]))
    assert "PREFECT_API_URL" in read
    assert sorted(name for name in read if f"`{name}`" not in page("settings.md")) == []


def test_c122_every_flag_of_every_command_is_on_the_page_of_commands(helps: dict[str, str]) -> None:
    assert {"--arm", "-d", "--quiet", "-q"} <= flags_in_help(helps["run"])
    told = [line for command, shown in helps.items() for line in unnamed_flags(command, shown, page("commands.md"))]
    assert told == []


def test_the_page_of_commands_names_no_flag_that_is_not_there(helps: dict[str, str]) -> None:
    assert stale_flags(helps, page("commands.md")) == []


def test_choices_of_a_flag_are_on_the_page_of_commands(helps: dict[str, str]) -> None:
    for command, shown in helps.items():
        body = section_of(command, page("commands.md"))
        assert body is not None
        plain = " ".join(shown.replace("│", " ").split())
        for choices in re.findall(r"\[choices: ([^\]]+)\]", plain):
            missing = [choice for choice in choices.split(", ") if not re.search(rf"\b{choice}\b", body)]
            assert missing == [], command


def test_defaults_on_the_page_of_commands_are_those_of_the_program(helps: dict[str, str]) -> None:
    said = {ticked(cells[0])[0].split()[0]: cells[1] for cells in rows(page("commands.md")) if ticked(cells[0])}
    assert f"({SLICE_BLOCKS})" in said["--slice"]
    assert f"({Limits().retries})" in said["--retries"]
    concurrency = (
        f"{DEFAULT_CONCURRENCY['command']} for commands, {DEFAULT_CONCURRENCY['recorded']} for recorded answers"
    )
    assert concurrency in said["--concurrency"]
    plain = " ".join(helps["run"].replace("│", " ").split())
    for default in (f"Default: {SLICE_BLOCKS}.", f"Default: {Limits().retries}.", f"Default: {concurrency}."):
        assert default in plain


def test_links_into_a_page_lead_to_a_heading(pages: dict[str, str]) -> None:
    assert lost_anchors(pages) == []


@pytest.mark.parametrize("folder", ["decisions", "methods", "reasons"])
def test_the_first_page_of_a_folder_lists_the_others(folder: str) -> None:
    names = [path.name for path in (DOCS / folder).glob("*.md")]
    assert len(names) > 2
    assert unlisted(names, page(f"{folder}/README.md")) == []


@pytest.mark.parametrize("value", ["0", "many"])
def test_a_setting_that_cannot_be_used_is_refused_before_anything_is_stored(
    exp: Any, project: Path, value: str
) -> None:
    (project / "cases.jsonl").write_text('{"input": "a", "expected": "a"}\n', encoding="utf-8")
    (project / "spec.json").write_text(
        json.dumps(
            {
                "dataset": "cases.jsonl",
                "task": {"kind": "command", "command": ["cat"], "stdin": "text"},
                "graders": [{"kind": "exact"}],
            }
        ),
        encoding="utf-8",
    )
    run = exp("run", "spec.json", env={"FAIRTRIAL_CONCURRENCY": value})
    assert (run.code, "FAIRTRIAL_CONCURRENCY" in run.err, value in run.err) == (64, True, True)
    assert exp("list", "--json").json == []


# --- the rules complain -----------------------------------------------------------------------------------------------


def test_a_code_that_is_wrong_missing_stale_or_without_a_remedy_is_seen() -> None:
    codes = {name: Status(64, 400, "about") for name in ("good", "wrong", "bare", "missing")}
    table = (
        "| `good` | 64 | 400 | about | do this |\n| `wrong` | 64 | 404 | about | do this |\n"
        "| `bare` | 64 | 400 | about | |\n| `stale` | 64 | 400 | about | do this |\n"
    )
    assert [line.split(":")[0] for line in wrong_codes(table, codes)] == ["stale", "wrong", "bare", "missing"]


def test_an_exit_status_without_a_row_is_seen() -> None:
    assert missing_exits("| 0 | done |\n| 129, 130 | stopped |\n| code 64 | 64 | x |\n", [0, 130, 64]) == [64]


def test_a_setting_that_is_missing_stale_or_described_otherwise_is_seen() -> None:
    table = "| `FAIRTRIAL_A` | one |\n| `FAIRTRIAL_B` | two |\n| `FAIRTRIAL_D` | four |\n"
    told = wrong_settings(table, {"FAIRTRIAL_A": "one", "FAIRTRIAL_B": "other", "FAIRTRIAL_C": "three"})
    assert [line.split(":")[0] for line in told] == ["FAIRTRIAL_C", "FAIRTRIAL_D", "FAIRTRIAL_B"]


def test_a_variable_is_seen_however_it_is_read() -> None:
    source = "import os\nos.environ.get('A')\nos.environ['B']\nquiet('C')\nother('D')\nos.environ.get(name)\n"
    assert variables_read({"faces/a.py": source}) == {"A", "B", "C"}


FORGED_HELP = """
Run it. See --elsewhere.
│ *  SPEC  A file for --nothing. │
│ --long -l STR  What it does; see --other. │
│                --wrapped is not a flag of this command │
│ *  --needed INT  More. [required] │
│ --help (-h)  Display this message. │
"""


def test_flags_are_read_from_the_panel_and_not_from_its_words() -> None:
    assert flags_in_help(FORGED_HELP) == {"--long", "-l", "--needed"}


def test_a_flag_that_is_missing_or_stale_and_a_command_without_a_section_are_seen() -> None:
    text = (
        "# Commands\n\n`--needed`\n\n## exp run, exp walk\n\n`--long VALUE` and `--gone`\n\n"
        "## exp fly\n\n`exp fly up`\n"
    )
    assert unnamed_flags("run", FORGED_HELP, text) == [
        "exp run --needed: is not named",
        "exp run -l: is not named",
    ]
    assert unnamed_flags("swim", FORGED_HELP, text) == ["exp swim: has no section"]
    assert unnamed_flags("fly down", "", text) == ["exp fly down: has no section"]
    assert unnamed_flags("fly up", "", text) == []
    assert stale_flags({"run": FORGED_HELP}, text) == ["exp run, exp walk: --gone"]


def test_an_anchor_without_a_heading_is_seen() -> None:
    forged = {
        "README.md": "[a](docs/a.md#one-two) [b](docs/a.md#three) [c](#here) [d](https://example.org/a.md#x)\n# Here\n",
        "docs/a.md": "## One, two\n[up](../README.md#here) [self](#one-two) [no](#two)\n",
    }
    assert lost_anchors(forged) == ["README.md: docs/a.md#three", "docs/a.md: #two"]


def test_a_page_that_the_overview_leaves_out_is_seen() -> None:
    assert unlisted(["README.md", "a.md", "b.md"], "- [A](a.md)\n- b.md\n") == ["b.md"]
