"""Every benchmark, one after the other, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

NAMES = ("stats", "overhead", "compare", "resume", "memory", "fire")


def main() -> int:
    """Run them all; returns 1 when one of them missed a bar it checks itself."""
    failed = [
        name for name in NAMES if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode
    ]
    if failed:
        print(f"missed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
