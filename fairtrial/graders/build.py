"""From the graders of a spec to graders that can be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fairtrial.errors import SpecError
from fairtrial.graders.base import Grader
from fairtrial.graders.version import AnyGraderSpec, GraderVersion, grader_version
from fairtrial.spec.models import (
    BleuGrader,
    ChrfGrader,
    CommandGrader,
    ContainsGrader,
    CostGrader,
    ExactGrader,
    JsonGrader,
    JsonSchemaGrader,
    LatencyGrader,
    LengthGrader,
    NumberGrader,
    PythonGrader,
    RegexGrader,
    SimilarityGrader,
    ValuesGrader,
)
from fairtrial.subjects.reaper import Reaper

__all__ = ["GraderVersion", "build_graders", "grader_names", "grader_version"]


def build_graders(
    specs: Sequence[AnyGraderSpec], *, folder: Path, environ: Mapping[str, str], reaper: Reaper
) -> tuple[Grader, ...]:
    """Return the graders of a spec in its order; nothing is started.

    folder   the spec file's folder, where relative names start
    Raises SpecError for a doubled name and for everything about a grader that can be seen before a run.
    """
    names = grader_names(specs)
    return tuple(
        _build(spec, name, f"graders[{index}]", folder=folder, environ=environ, reaper=reaper)
        for index, (spec, name) in enumerate(zip(specs, names, strict=True))
    )


def grader_names(specs: Sequence[AnyGraderSpec]) -> tuple[str, ...]:
    """Return a name for each grader: its own, else its kind, with #2, #3 where that is taken. Raises SpecError."""
    given = [spec.name for spec in specs if spec.name is not None]
    for index, spec in enumerate(specs):
        if spec.name is not None and given.count(spec.name) > 1:
            raise SpecError(
                f'two graders are named "{spec.name}".',
                hint="Scores are told apart by the grader's name: give each its own.",
                place=f"graders[{index}].name",
            )
    taken, names = set(given), []
    for spec in specs:
        name = spec.name or spec.kind
        number = 1
        while spec.name is None and name in taken:
            number += 1
            name = f"{spec.kind}#{number}"
        taken.add(name)
        names.append(name)
    return tuple(names)


def _build(
    spec: AnyGraderSpec, name: str, place: str, *, folder: Path, environ: Mapping[str, str], reaper: Reaper
) -> Grader:
    # Each kind is loaded when it is used: most runs need one of them.
    version = grader_version(spec, folder).hash
    if isinstance(spec, ExactGrader | ContainsGrader):
        from fairtrial.graders.text import EqualGrader, PartGrader

        if isinstance(spec, ExactGrader):
            return EqualGrader(spec, name=name, version=version, place=place)
        return PartGrader(spec, name=name, version=version, place=place)
    if isinstance(spec, RegexGrader):
        from fairtrial.graders.pattern import PatternGrader

        return PatternGrader(spec, name=name, version=version, place=place)
    if isinstance(spec, NumberGrader):
        from fairtrial.graders.number import NumberReader

        return NumberReader(spec, name=name, version=version, place=place)
    if isinstance(spec, JsonGrader):
        from fairtrial.graders.json_value import ValueGrader

        return ValueGrader(spec, name=name, version=version, place=place)
    if isinstance(spec, ValuesGrader):
        from fairtrial.graders.values import ExtractionGrader

        return ExtractionGrader(spec, name=name, version=version, place=place)
    if isinstance(spec, SimilarityGrader | BleuGrader | ChrfGrader):
        from fairtrial.graders.references import LikenessGrader, TranslationGrader

        if isinstance(spec, SimilarityGrader):
            return LikenessGrader(spec, name=name, version=version, place=place)
        return TranslationGrader(spec, name=name, version=version, place=place)
    if isinstance(spec, LengthGrader | LatencyGrader | CostGrader):
        from fairtrial.graders.measures import DollarsGrader, SecondsGrader, TextLengthGrader

        if isinstance(spec, LengthGrader):
            return TextLengthGrader(spec, name=name, version=version, place=place)
        if isinstance(spec, LatencyGrader):
            return SecondsGrader(spec, name=name, version=version)
        return DollarsGrader(spec, name=name, version=version)
    return _with_process(spec, name, version, place, folder=folder, environ=environ, reaper=reaper)


def _with_process(
    spec: JsonSchemaGrader | PythonGrader | CommandGrader,
    name: str,
    version: str,
    place: str,
    *,
    folder: Path,
    environ: Mapping[str, str],
    reaper: Reaper,
) -> Grader:
    if isinstance(spec, JsonSchemaGrader):
        from fairtrial.graders.json_schema import SchemaGrader

        return SchemaGrader(
            spec, name=name, version=version, place=place, folder=folder, environ=environ, reaper=reaper
        )
    if isinstance(spec, PythonGrader):
        from fairtrial.graders.python import FunctionGrader

        return FunctionGrader(
            spec, name=name, version=version, place=place, folder=folder, environ=environ, reaper=reaper
        )
    from fairtrial.graders.command import ProgramGrader

    return ProgramGrader(spec, name=name, version=version, place=place, folder=folder, environ=environ, reaper=reaper)
