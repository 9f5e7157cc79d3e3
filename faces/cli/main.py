"""The entry of `exp`: commands load when they are asked for, and every end has its exit status.

The command-line library's own status 2 for a wrong call is turned into 64: 2 means too little evidence here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cyclopts import App, CycloptsError, Parameter

from faces.cli.output import note, show_error
from fairtrial import __version__
from fairtrial.errors import CODES, FairtrialError, SpecError

# name -> (where it is, one line)
COMMANDS: Final = {
    "run": ("faces.cli.run:run", "Run a spec, or several arms side by side, to a verdict."),
    "compare": ("faces.cli.compare:compare", "Compare two stored runs, or the arms of one, case by case."),
    "list": ("faces.cli.experiments:list_", "List the stored experiments, newest first."),
    "show": ("faces.cli.experiments:show", "Show one experiment: its report and what it was made of."),
    "status": ("faces.cli.status:status", "Show how far runs are, who works on them and what they wait for."),
    "finish": ("faces.cli.finish:finish", "Close a run with what it has."),
    "trials": ("faces.cli.trials:trials", "Show the trials of an experiment, with outputs and grades."),
    "dataset": ("faces.cli.datasets:app", "Register datasets under a name, with versions."),
    "graders": ("faces.cli.about:graders", "List the graders and their settings."),
    "schema": ("faces.cli.about:schema", "Print the JSON Schema of a spec, a case or a stored verdict."),
    "up": ("faces.cli.server:up", "Start the local Prefect server and say where its pages are."),
    "down": ("faces.cli.server:down", "Stop the local Prefect server."),
}

RESUME_NEWEST: Final = "newest"
"""What a bare --resume stands for."""


def make_app(asked: str | None = None) -> App:
    """Return the command line without having loaded a command.

    asked   the command that is called: it shows its own help, the others only their line here
    """
    app = App(
        name="exp",
        help=(
            "Run AI tasks over datasets and say, with stated error rates, whether a change helped.\n\n"
            "Example: exp run --arm base=a.json --arm cand=b.json"
        ),
        version=f"exp {__version__}",
        help_format="plaintext",
        # A list is emptied by leaving it out: no --empty-arm beside every --arm.
        default_parameter=Parameter(negative=""),
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
    )
    for name, (where, about) in COMMANDS.items():
        if name == asked:
            app.command(where, name=name)
        else:
            app.command(where, name=name, help=about)
    return app


def main() -> None:
    """Run the command line and end the process with its status."""
    sys.exit(call(sys.argv[1:]))


def call(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status; no traceback leaves this function."""
    as_json = "--json" in arguments
    try:
        check_own_modules()
        status = make_app(asked=arguments[0] if arguments else None)(give_resume_a_value(arguments))
        sys.stdout.flush()
    except CycloptsError as error:
        show_error(_usage(error), as_json=as_json)
        return CODES["bad_usage"].exit
    except FairtrialError as error:
        show_error(error, as_json=as_json)
        return error.exit_status
    except KeyboardInterrupt:
        note("interrupted")
        return 130
    except BrokenPipeError:
        # The reader went away (`| head`): what it wanted it has. The interpreter must not try to flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _our_fault(error, as_json=as_json)
    return status if isinstance(status, int) else 0


def give_resume_a_value(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with a bare --resume spelt out: its value is optional and begins with exp_ or latest."""
    given = list(arguments)
    for index, argument in enumerate(given):
        if argument == "--resume":
            following = given[index + 1] if index + 1 < len(given) else ""
            if following.startswith(("exp_", "latest")):
                continue
            if following and not following.startswith("-") and not Path(following).exists():
                raise SpecError(
                    f"--resume {following}: that is neither an experiment nor a spec file.",
                    code="bad_usage",
                    hint="An experiment begins with exp_, or is `latest`; a bare --resume takes the spec's newest run.",
                )
            given[index] = f"--resume={RESUME_NEWEST}"
    return given


def check_own_modules() -> None:
    """Raise SpecError when a file of the user's stands in front of one of our packages."""
    ours = Path(__file__).resolve().parents[2]
    for name in ("fairtrial", "stats", "tasks", "flows", "faces"):
        loaded = sys.modules.get(name)
        found = getattr(loaded, "__file__", None) if loaded is not None else _spec_origin(name)
        if found is not None and ours not in Path(found).resolve().parents:
            raise SpecError(
                f"{found} stands in front of fairtrial's own package {name!r}.",
                code="bad_usage",
                hint="Rename that file, or take its folder out of PYTHONPATH.",
            )


def _spec_origin(name: str) -> str | None:
    from importlib.util import find_spec

    spec = find_spec(name)
    return spec.origin if spec is not None else None


def _usage(error: CycloptsError) -> FairtrialError:
    # The library's text names the argument and the nearest known one.
    message = " ".join(str(error).split())
    return FairtrialError(message, code="bad_usage", hint="`exp --help` and `exp COMMAND --help` list every flag.")


def _our_fault(error: Exception, *, as_json: bool) -> int:
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="fairtrial-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
    ) as file:
        traceback.print_exception(error, file=file)
    fault = FairtrialError(
        f"a fault of ours: {type(error).__name__}.",
        hint=f"Please report it with {file.name}. What was finished is stored; --resume goes on.",
    )
    show_error(fault, as_json=as_json)
    return fault.exit_status


if __name__ == "__main__":
    main()
