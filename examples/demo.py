"""The main job, twice, on the examples of this folder: an A/B of two programs, and one of answers recorded earlier.

Runs through Prefect like any run of yours; everything it writes is in ./demo.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = Path("demo").absolute()
EXP = Path(sys.executable).with_name("exp")


def main() -> int:
    """Run both comparisons; returns the first status that is not 0."""
    OUT.mkdir(exist_ok=True)
    for title, folder, base, candidate in (
        ("A/B of two programs: did the new ticket router help?", "tickets", "v1", "v2"),
        ("A/B of recorded answers: is the bigger system better?", "sums", "small", "big"),
    ):
        print(f"\n== {title}", flush=True)
        status = exp(
            "run",
            "--arm",
            f"{base}={HERE / folder / base}.json",
            "--arm",
            f"{candidate}={HERE / folder / candidate}.json",
            "--seed",
            "7",
            "-o",
            str(OUT / f"{folder}.md"),
            "-o",
            str(OUT / f"{folder}.json"),
        )
        if status != 0:
            return status
    print("\n== What is stored now", flush=True)
    exp("list")
    print(f"\nReports: {OUT}/tickets.md, {OUT}/sums.md (and .json)")
    print("The Prefect server goes on for the next run: `exp up` says where its pages are, `exp down` stops it.")
    return 0


def exp(*arguments: str) -> int:
    """Run the command as a person would, with its state in the demo folder."""
    print(f"$ exp {' '.join(arguments)}", flush=True)
    environ = {**os.environ, "FAIRTRIAL_HOME": str(OUT / ".fairtrial")}
    return subprocess.run([str(EXP), *arguments], env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
