"""The report of a comparison, as lines for a terminal and as Markdown.

The order is the order of need: what differs, the two pass rates, B − A with its interval, the exact test, the verdict,
then the cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairtrial.records.verdict import (
    CaseChange,
    ComparisonBody,
    DecisionRecord,
    Meta,
    NotComparableRecord,
    SideRecord,
)
from fairtrial.reports.figures import count, p_value, percent, points, short_percent, short_points
from fairtrial.reports.safe import markdown, names_for, pad, visible, width_of

MOST_CASES = 20
"""Cases listed in text; verdict.json and --json have them all."""

MOST_IDS = 10

WIDTH = 100
"""Columns of a report when nobody says how many there are."""

_NAME_WIDTH = 60
_LEAST_NAME_WIDTH = 16
_FIGURES_WIDTH = 24
"""Room of a case's figures behind its name: three columns and the spaces between them."""


def comparison_lines(body: ComparisonBody, meta: Meta, *, width: int = WIDTH) -> list[str]:
    """Return the report of one comparison for a terminal of `width` columns. Every text from outside is made visible.

    Names give way to the width, figures never.
    """
    lines = [f"differs  {visible(item.path)}: {visible(item.a)} → {visible(item.b)}" for item in body.settings]
    lines += [_side_line(mark, side, meta) for mark, side in (("A", body.a), ("B", body.b))]
    lines += [*_failure_lines(body), ""]
    lines += [difference_line(body), flips_line(body), f"verdict  {verdict_text(body.decision)}"]
    lines += [f"warning  {visible(warning.text)}" for warning in body.warnings]
    lines += _look_lines(meta)
    lines += _not_comparable_lines(body.not_comparable)
    for title, changes in (("regressions", body.regressions), ("improvements", body.improvements)):
        lines += ["", *_case_lines(title, changes, width=width)]
    return lines


def comparison_markdown(body: ComparisonBody, meta: Meta) -> str:
    """Return the report of one comparison as Markdown in which text from outside is inert."""
    rows = [
        "| | arm | pass | graded only | agent failures | lost |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {mark} | {markdown(side.label)} | {percent(side.pass_share)}{partial_text(side)} "
            f"| {_graded_only(side)} | {side.n_agent_failures} | {side.n_lost} |"
            for mark, side in (("A", body.a), ("B", body.b))
        ),
    ]
    parts = [
        f"**{verdict_markdown(body.decision)}**",
        f"{difference_line(body)}  \n{flips_line(body)}",
        "\n".join(rows),
    ]
    if body.settings:
        parts.append(
            "\n".join(f"- differs: {markdown(s.path)}: {markdown(s.a)} → {markdown(s.b)}" for s in body.settings)
        )
    notes = [warning.text for warning in body.warnings]
    notes += [line.strip() for line in (*_look_lines(meta), *_not_comparable_lines(body.not_comparable))]
    if notes:
        parts.append("\n".join(f"- {markdown(note)}" for note in notes))
    parts += [_case_markdown("Regressions", body.regressions), _case_markdown("Improvements", body.improvements)]
    return "\n\n".join(parts)


def verdict_text(decision: DecisionRecord) -> str:
    """Return the verdict with what did not agree."""
    return _verdict(decision, visible)


def verdict_markdown(decision: DecisionRecord) -> str:
    """Return the verdict with what did not agree, as Markdown."""
    return _verdict(decision, markdown)


def difference_line(body: ComparisonBody) -> str:
    """Return B − A with its interval and how it was made."""
    difference = body.difference
    pairs = count(body.n_pairs, "paired case")
    if difference.estimate is None:
        return f"B − A    not defined ({pairs})"
    if difference.low is None or difference.high is None:
        return f"B − A    {points(difference.estimate)} ({visible(difference.reason or '')}; {pairs})"
    interval = f"[{points(difference.low)}, {points(difference.high)}]"
    return f"B − A    {points(difference.estimate)} {interval} ({pairs}, 95% paired bootstrap, seed {difference.seed})"


def flips_line(body: ComparisonBody) -> str:
    """Return the exact test on the cases that flipped."""
    flips = body.flips
    holm = "" if flips.adjusted_p is None else f" (Holm {p_value(flips.adjusted_p)})"
    return f"mcnemar  p={p_value(flips.p)}{holm}  {flips.regressed:,} regressed, {flips.improved:,} improved"


def losses_text(side: SideRecord) -> str:
    """Return what happened to the trials of one side, by class: `8 trials: 6 graded, 1 infra, 1 grader error`."""
    graders = sum(error.n for error in side.errors if error.outcome == "infra_loss" and error.kind == "grader_error")
    parts = [
        (side.n_graded, "graded", "graded"),
        (side.n_agent_failures, "agent failure", "agent failures"),
        (side.n_infra_losses - graders, "infra", "infra"),
        (graders, "grader error", "grader errors"),
        (side.n_ungraded, "without a score", "without a score"),
        (side.n_trials - side.n_done, "not run", "not run"),
    ]
    told = ", ".join(f"{n:,} {one if n == 1 else many}" for n, one, many in parts if n)
    return f"{count(side.n_trials, 'trial')}: {told or 'none run'}"


def error_texts(side: SideRecord) -> list[str]:
    """Return each kind of error with its count: `3 × exit_code (agent)`."""
    names = {"agent_failure": "agent", "infra_loss": "infra"}
    return [f"{error.n:,} × {visible(error.kind)} ({names[error.outcome]})" for error in side.errors]


def partial_text(side: SideRecord) -> str:
    """Return the mark of a side that owes trials, nothing for one that is complete."""
    return "" if side.complete else f" (partial: {side.n_done:,} of {side.n_trials:,} trials)"


def _verdict(decision: DecisionRecord, safe: Callable[[str], str]) -> str:
    if not decision.reasons:
        return f"B is {decision.outcome}"
    return f"{decision.outcome} ({'; '.join(safe(reason.text) for reason in decision.reasons)})"


def _side_line(mark: str, side: SideRecord, meta: Meta) -> str:
    at = 0 if mark == "A" else -1
    name = f"{mark} {visible(side.label)}  {meta.experiments[at]}"
    return f"{name}  pass {percent(side.pass_share)}{partial_text(side)}"


def _failure_lines(body: ComparisonBody) -> list[str]:
    lines = []
    for mark, side in (("A", body.a), ("B", body.b)):
        if side.n_agent_failures or side.n_lost:
            errors = ", ".join(error_texts(side))
            lines.append(
                f"{mark} {losses_text(side)}; graded only {_graded_only(side)}; failure rate {_failure_rate(side)}"
            )
            if errors:
                lines.append(f"  {errors}")
    return lines


def _graded_only(side: SideRecord) -> str:
    if not side.n_graded:
        return "none"
    return f"{side.n_graded_passed:,}/{side.n_graded:,} = {percent(side.n_graded_passed / side.n_graded)}"


def _failure_rate(side: SideRecord) -> str:
    return percent(side.n_agent_failures / side.n_done) if side.n_done else percent(None)


def _look_lines(meta: Meta) -> list[str]:
    if meta.look is None or meta.look < 2:
        return []
    return [
        f"warning  this is look {meta.look} at these two runs while they grow: the chance of a wrong verdict is no "
        "longer 5%"
    ]


def _not_comparable_lines(found: NotComparableRecord) -> list[str]:
    lines = []
    for ids, why in (
        (found.input_changed, "the input changed"),
        (found.label_changed, "the label changed (a regrade mends this)"),
        (found.without_value, "no value on one side"),
    ):
        if ids:
            named = ", ".join(names_for(ids[:MOST_IDS], _NAME_WIDTH))
            more = f" and {len(ids) - MOST_IDS:,} more" if len(ids) > MOST_IDS else ""
            lines.append(f"{len(ids):,} not comparable: {why}: {named}{more}")
    if found.only_a or found.only_b:
        lines.append(f"not in both: {count(found.only_a, 'case')} only in A, {count(found.only_b, 'case')} only in B")
    return lines


def _case_lines(title: str, changes: Sequence[CaseChange], *, width: int) -> list[str]:
    if not changes:
        return [f"{title} 0"]
    rows = _rows(changes, width=min(_NAME_WIDTH, max(width - _FIGURES_WIDTH, _LEAST_NAME_WIDTH)))
    heads = ("case", "A", "B", "Δ")
    widths = [max(width_of(row[column]) for row in (heads, *rows)) for column in range(4)]
    lines = [f"{title} {len(changes):,}", _table_line(heads, widths), "  ".join("-" * width for width in widths)]
    lines += [_table_line(row, widths) for row in rows]
    if len(changes) > MOST_CASES:
        lines.append(f"… {len(changes) - MOST_CASES:,} more in verdict.json and --json")
    return lines


def _rows(changes: Sequence[CaseChange], *, width: int) -> list[tuple[str, str, str, str]]:
    shown = changes[:MOST_CASES]
    names = names_for([change.case for change in shown], width)
    return [
        (name, short_percent(change.a), short_percent(change.b), short_points(change.b - change.a))
        for name, change in zip(names, shown, strict=True)
    ]


def _table_line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        pad(cell, width, right=index > 0) for index, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join([first, *rest]).rstrip()


def _case_markdown(title: str, changes: Sequence[CaseChange]) -> str:
    if not changes:
        return f"{title}: 0"
    rows = _rows(changes, width=_NAME_WIDTH)
    lines = [f"{title}: {len(changes):,}", "", "| case | A | B | Δ |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {markdown(case)} | {a} | {b} | {delta} |" for case, a, b, delta in rows]
    if len(changes) > MOST_CASES:
        lines += ["", f"… {len(changes) - MOST_CASES:,} more in verdict.json"]
    return "\n".join(lines)
