"""What the grader tests share: building one grader from a spec as JSON, and asking it once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from fairtrial.graders.base import Grader
from fairtrial.graders.build import build_graders
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case
from fairtrial.spec.models import GraderSpec
from fairtrial.subjects.reaper import Reaper

ADAPTER: TypeAdapter[Any] = TypeAdapter(GraderSpec)


@pytest.fixture(scope="session")
def reaper() -> Iterator[Reaper]:
    reaper = Reaper()
    yield reaper
    reaper.close()


@pytest.fixture
def build(tmp_path: Path, reaper: Reaper) -> Callable[..., Grader]:
    """Return a function that makes one grader: `build(kind="exact", value="x")`."""

    def make(*, environ: dict[str, str] | None = None, **spec: Any) -> Grader:
        (grader,) = build_graders(
            [ADAPTER.validate_python(spec)],
            folder=tmp_path,
            environ={**os.environ, **(environ or {})},
            reaper=reaper,
        )
        return grader

    return make


@pytest.fixture
def grade(build: Callable[..., Grader]) -> Callable[..., Grade]:
    """Return a function that grades one output: `grade(b"out", expected="x", kind="exact")`."""

    def once(
        output: bytes | str, *, case: Case | None = None, environ: dict[str, str] | None = None, **spec: Any
    ) -> Grade:
        has_expected = "expected" in spec
        asked = case or Case(id="c1", input="q", expected=spec.pop("expected", None), has_expected=has_expected)
        grader = build(environ=environ, **spec)

        async def ask() -> Grade:
            try:
                return await grader.grade(
                    output.encode("utf-8", "surrogatepass") if isinstance(output, str) else output, case=asked, mark={}
                )
            finally:
                await grader.close()

        return asyncio.run(ask())

    return once
