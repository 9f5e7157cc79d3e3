"""What a person asks for: the experiment spec, as strict models.

An unknown key is an error, and no value is converted from another type: "3" is not 3. Descriptions are the text of
docs/spec.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    field_validator,
    model_validator,
)

from fairtrial.spec.text import has_control_character

_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
_PRICE: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)


def _one_line(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is blank")
    if has_control_character(text):
        raise ValueError("the text holds a line break or another control character")
    return text


def _runnable(command: list[str] | str) -> list[str] | str:
    program = command if isinstance(command, str) else next(iter(command), "")
    if not program.strip():
        raise ValueError("the command is empty")
    return command


def _named(env: dict[str, str | FromEnv]) -> dict[str, str | FromEnv]:
    if any(not name or "=" in name for name in env):
        raise ValueError('a variable needs a name without "="')
    return env


def _exact_money(value: object) -> object:
    if value is None or isinstance(value, Decimal):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str) or not _PRICE.fullmatch(str(value)):
        raise ValueError("a price is a plain decimal number such as 2.50")
    return Decimal(str(value))


class Strict(BaseModel):
    """Base of every model that reads something from outside."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _text_can_be_passed_on(cls, value: object) -> object:
        # No program, environment variable or database column takes these; a model's answer may hold them, a spec not.
        if any("\0" in text or _HALF_PAIR.search(text) for text in _texts(value)):
            raise ValueError("the text holds a NUL character or half a surrogate pair")
        return value


class FromEnv(Strict):
    """A value taken from the environment when a trial starts; the value itself is never stored."""

    from_env: str = Field(min_length=1, description="Name of the environment variable that holds the value.")


Line = Annotated[str, AfterValidator(_one_line)]
"""A text that is shown on one line."""

Command = Annotated[list[str] | str, AfterValidator(_runnable)]
Environment = Annotated[dict[str, str | FromEnv], AfterValidator(_named)]


class CommandTask(Strict):
    """A program that gets a case and prints its answer."""

    kind: Literal["command"]
    command: Command = Field(
        description="Program and arguments as a list; or one line for `/bin/sh -c`, which then takes no `{{…}}`."
    )
    env: Environment = Field(
        default_factory=dict,
        description='Variables added to the environment that exp was started in: a text, or `{"from_env": "NAME"}` '
        "for a secret.",
    )
    cwd: str | None = Field(default=None, description="Working folder; the spec file's folder when left out.")
    stdin: Literal["json", "text", "none"] = Field(
        default="text",
        description="What the program reads: the input as text, the case without its label as one JSON object, or "
        "nothing.",
    )
    files: list[str] | None = Field(
        default=None,
        description="Globs of the files that count as the task's code. Left out: files named in the command and files "
        "of the same suffix below their folder.",
    )

    @field_validator("command")
    @classmethod
    def _case_text_stays_out_of_the_shell(cls, command: list[str] | str) -> list[str] | str:
        if isinstance(command, str) and "{{" in command:
            raise ValueError(
                "a shell line takes no {{…}}: case text would be run by the shell. Read the case from stdin, or "
                "give the command as a list"
            )
        return command


class RecordedTask(Strict):
    """Answers made elsewhere, joined to the cases by id. A field is a column or key, or a JSON Pointer (`/a/b`)."""

    kind: Literal["recorded"]
    path: str = Field(min_length=1, description="JSONL, JSON list or CSV file, `.gz` allowed.")
    id: str = Field(default="id", description="Field with the case id.")
    output: str = Field(default="output", description="Field with the answer.")
    repetition: str | None = Field(default=None, description="Field with the repetition, 1-based; else all are 1.")
    error: str | None = Field(default=None, description="Field whose non-empty text marks a failed answer.")
    latency_s: str | None = Field(default=None, description="Field with the seconds the answer took.")
    cost_usd: str | None = Field(default=None, description="Field with the price of the answer in US dollars.")
    input_tokens: str | None = Field(default=None, description="Field with the tokens read.")
    output_tokens: str | None = Field(default=None, description="Field with the tokens written.")


Task = Annotated[CommandTask | RecordedTask, Field(discriminator="kind")]


class GraderBase(Strict):
    """What every grader shares. The name is a label only: renaming a grader does not change its version."""

    name: Line | None = Field(default=None, min_length=1, max_length=80, description="Name in reports.")


class TextGrader(GraderBase):
    """A grader that reads the output as text."""

    extract: str | None = Field(
        default=None,
        description="Regular expression that finds the answer in the output; its first group, else the whole match, "
        "is graded. No match is a score of 0 with that reason.",
    )
    extract_from: Literal["first", "last"] = Field(default="last", description="Which match counts.")
    strip: bool = Field(default=True, description="Drop white space at both ends before comparing.")


class ExactGrader(TextGrader):
    """1 when the output equals the expected text; `iexact` does not tell upper from lower case."""

    kind: Literal["exact", "iexact"]
    value: str | None = Field(default=None, description="Text to compare with instead of the case's expected value.")


class ContainsGrader(TextGrader):
    """1 when the output contains the expected text, or any or all of a list; `icontains` does not tell upper from
    lower case.
    """

    kind: Literal["contains", "icontains"]
    value: str | list[str] | None = Field(default=None, description="Text or texts instead of the expected value.")
    match: Literal["any", "all"] = Field(default="any", description="How many texts of a list must be there.")


class RegexGrader(TextGrader):
    """1 when the pattern is found in the output."""

    kind: Literal["regex"]
    pattern: str = Field(min_length=1, description="Regular expression, searched for in the output.")
    ignore_case: bool = Field(default=False, description="Upper and lower case are the same.")
    multiline: bool = Field(default=False, description="`^` and `$` also match at line breaks.")
    dotall: bool = Field(default=False, description="`.` also matches a line break.")
    timeout_s: float = Field(default=1.0, gt=0, le=60, description="Longest search, in seconds; then a grader error.")


class NumberGrader(TextGrader):
    """1 when the number in the output is the expected number."""

    kind: Literal["number"]
    where: Literal["first", "last", "only"] = Field(default="last", description="Which number of the text counts.")
    tolerance: float = Field(default=0.0, ge=0, description="Largest absolute difference that passes.")
    relative_tolerance: float = Field(default=0.0, ge=0, description="Largest difference as a share of the expected.")
    value: float | int | None = Field(default=None, description="Number instead of the case's expected value.")


Pointer = Annotated[
    str, Field(description="JSON Pointer (`/a/0`) to the part of the answer that is graded; the whole when empty.")
]
Threshold = Annotated[
    float | None,
    Field(gt=0, le=1, description="Makes the score 1 from this value on and 0 below; else the value is the score."),
]


class JsonGrader(TextGrader):
    """1 when the answer is the expected JSON value, or holds all of it (`subset`). 1 equals 1.0, "1" does not."""

    kind: Literal["json"]
    match: Literal["equal", "subset"] = Field(
        default="equal",
        description="`subset`: every key and element of the expected value is in the answer, which may have more.",
    )
    unordered: bool = Field(default=False, description="The order of the elements of a list does not count.")
    tolerance: float = Field(default=0.0, ge=0, description="Largest absolute difference of two numbers that passes.")
    pointer: Pointer = ""
    value: JsonValue = Field(default=None, description="JSON value to compare with instead of the expected value.")


class JsonSchemaGrader(TextGrader):
    """1 when the answer is a JSON value that the schema allows. Nothing outside the schema is ever fetched."""

    # `schema` itself is the name of something that every pydantic model has.
    model_config = ConfigDict(serialize_by_alias=True)

    kind: Literal["json_schema"]
    inline: dict[str, JsonValue] | bool | None = Field(default=None, alias="schema", description="The JSON Schema.")
    path: str | None = Field(default=None, min_length=1, description="JSON file with the schema instead.")
    pointer: Pointer = ""
    timeout_s: float = Field(
        default=10.0, gt=0, description="Longest check of one answer, in seconds; then a grader error."
    )

    @model_validator(mode="after")
    def _one_schema(self) -> Self:
        if (self.inline is None) == (self.path is None):
            raise ValueError('give the schema as "schema", or a "path" to it')
        return self


class SimilarityGrader(TextGrader):
    """How alike the answer and the expected text are, 0 to 1; of several texts the nearest counts."""

    kind: Literal["similarity"]
    method: Literal["levenshtein", "jaro_winkler", "token_sort", "token_set"] = Field(
        default="levenshtein", description="How likeness is measured: by characters, or by words in any order."
    )
    ignore_case: bool = Field(default=False, description="Upper and lower case are the same.")
    threshold: Threshold = None
    value: str | list[str] | None = Field(default=None, description="Text or texts instead of the expected value.")


class BleuGrader(TextGrader):
    """Sentence BLEU of the answer against one reference or several, 0 to 1."""

    kind: Literal["bleu"]
    tokenize: Literal["13a", "intl", "char", "zh", "none"] = Field(
        default="13a", description="How sacrebleu cuts a text into words."
    )
    lowercase: bool = Field(default=False, description="Upper and lower case are the same.")
    threshold: Threshold = None
    value: str | list[str] | None = Field(default=None, description="Reference or references instead of the expected.")


class ChrfGrader(TextGrader):
    """Sentence chrF of the answer against one reference or several, 0 to 1."""

    kind: Literal["chrf"]
    word_order: int = Field(default=0, ge=0, le=6, description="Longest run of words that counts; 2 is chrF++.")
    lowercase: bool = Field(default=False, description="Upper and lower case are the same.")
    threshold: Threshold = None
    value: str | list[str] | None = Field(default=None, description="Reference or references instead of the expected.")


class LengthGrader(TextGrader):
    """1 when the length of the output is within the limits."""

    kind: Literal["length"]
    unit: Literal["characters", "words", "lines"] = Field(default="characters", description="What is counted.")
    min: int | None = Field(default=None, ge=0, description="Fewest that pass.")
    max: int | None = Field(default=None, ge=0, description="Most that pass.")

    @model_validator(mode="after")
    def _some_limit(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError('give "min", "max" or both')
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError('"min" is above "max", so no answer could pass')
        return self


class LatencyGrader(GraderBase):
    """1 when the answer took at most so many seconds; no score when that is not known."""

    kind: Literal["latency"]
    max_s: float = Field(gt=0, description="Most seconds that pass.")


class CostGrader(GraderBase):
    """1 when the answer cost at most so many US dollars; no score when that is not known."""

    kind: Literal["cost"]
    max_usd: Annotated[Decimal, BeforeValidator(_exact_money)] = Field(
        ge=0, description="Most US dollars that pass; a text is exact."
    )


class ValuesGrader(TextGrader):
    """F1 of the values that the answer writes, property by property, against the expected ones."""

    kind: Literal["values"]
    ignore: list[Literal["case", "space", "unicode", "number"]] = Field(
        default=["case", "space", "unicode", "number"],
        description="Differences between two values that do not count.",
    )
    no_value: list[str] = Field(default_factory=list, description="Texts that stand for no value, such as `n/a`.")
    pointer: Pointer = ""
    value: dict[str, JsonValue] | None = Field(default=None, description="Right values instead of the expected.")


class PythonGrader(GraderBase):
    """A function of yours, `grade(output, case)`, run in a subprocess."""

    kind: Literal["python"]
    path: str = Field(min_length=1, description="Python file with the function.")
    function: str = Field(default="grade", min_length=1, description="Name of the function.")
    interpreter: str | None = Field(default=None, description="Python to run it with; the one exp runs on if left out.")
    timeout_s: float = Field(default=60.0, gt=0, description="Longest grading of one answer, in seconds.")
    files: list[str] | None = Field(default=None, description="Globs of the files that count as the grader's code.")


class CommandGrader(GraderBase):
    """A program of yours that reads {"output", "case"} as JSON and prints a number or {"score", "reason"}."""

    kind: Literal["command"]
    command: Command = Field(description="Program and arguments as a list, or one line for `/bin/sh -c`.")
    env: Environment = Field(
        default_factory=dict,
        description='Variables added to the environment: a text, or `{"from_env": "NAME"}` for a secret.',
    )
    cwd: str | None = Field(default=None, description="Working folder; the spec file's folder when left out.")
    timeout_s: float = Field(default=60.0, gt=0, description="Longest grading of one answer, in seconds.")
    files: list[str] | None = Field(default=None, description="Globs of the files that count as the grader's code.")


GraderSpec = Annotated[
    ExactGrader
    | ContainsGrader
    | RegexGrader
    | NumberGrader
    | JsonGrader
    | JsonSchemaGrader
    | SimilarityGrader
    | BleuGrader
    | ChrfGrader
    | LengthGrader
    | LatencyGrader
    | CostGrader
    | ValuesGrader
    | PythonGrader
    | CommandGrader,
    Field(discriminator="kind"),
]


class Limits(Strict):
    """What a run may use and lose."""

    trial_timeout_s: float | None = Field(
        default=None, gt=0, description="Longest trial, retries included, in seconds."
    )
    retries: int = Field(default=3, ge=0, le=100, description="Further tries after a rate limit, 5xx or network error.")
    max_loss: float = Field(default=0.05, ge=0, le=1, description="Share of a side's trials that infra may lose.")
    max_cost_usd: Decimal | None = Field(
        default=None, gt=0, description="Most money the run may spend, in US dollars; a text is exact."
    )
    max_tokens: int | None = Field(default=None, gt=0, description="Most tokens the run may use.")

    @field_validator("max_cost_usd", mode="before")
    @classmethod
    def _money_is_exact(cls, value: object) -> object:
        return _exact_money(value)


class ExperimentSpec(Strict):
    """One graded run of a task over a dataset."""

    name: Line | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Name in lists and reports; the file's name without its suffix when left out.",
    )
    description: str | None = Field(default=None, description="A line for people; measured by nothing.")
    dataset: str | None = Field(
        default=None,
        min_length=1,
        description="Path of a JSONL or JSON file (a slash or a suffix makes it a path), else a registered name, "
        "`name@version` for an older one. `-d` replaces it.",
    )
    task: Task = Field(description="The thing under test.")
    graders: list[GraderSpec] = Field(default_factory=list, description="How answers are scored; `-g` replaces them.")
    trials: int = Field(default=1, ge=1, le=10_000, description="Times each case is run.")
    seed: int | None = Field(default=None, ge=0, lt=2**63, description="Start of every random choice; else drawn once.")
    limits: Limits = Field(default_factory=Limits, description="What a run may use and lose.")
    tags: list[Line] = Field(default_factory=list, description="Words to find the experiment by.")

    @field_validator("graders")
    @classmethod
    def _grader_names_differ(cls, graders: list[GraderSpec]) -> list[GraderSpec]:
        counts = Counter(grader.name for grader in graders if grader.name is not None)
        if any(count > 1 for count in counts.values()):
            raise ValueError("two graders have the same name")
        return graders
