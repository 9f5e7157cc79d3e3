"""The report of a run: its arms, and for an A/B the comparison that follows."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from fairtrial.records.verdict import Meta, RunBody, SideRecord
from fairtrial.reports.comparison import (
    WIDTH,
    comparison_lines,
    comparison_markdown,
    error_texts,
    losses_text,
    partial_text,
    verdict_markdown,
)
from fairtrial.reports.figures import NOT_REPORTED, count, duration, percent
from fairtrial.reports.safe import markdown, shorten, visible

_NAME_WIDTH = 80

_OUTCOMES: Final = {"agent_failure": ("agent failure", "agent failures"), "infra_loss": ("infra loss", "infra losses")}


def run_lines(body: RunBody, meta: Meta, *, width: int = WIDTH) -> list[str]:
    """Return the report of a run for a terminal of `width` columns."""
    lines = [
        f"{shorten(visible(meta.names[0]), _NAME_WIDTH)}  {meta.experiments[0]}",
        f"dataset  {shorten(visible(meta.dataset), _NAME_WIDTH)}  {_size(body)}",
        *(f"warning  {visible(warning)}" for warning in body.warnings),
        f"time     {_spent(body, meta)}",
        *(f"again    {line}" for line in _again(meta)),
    ]
    for side in body.arms:
        lines += ["", *_arm_lines(side, named=len(body.arms) > 1)]
    for comparison in body.comparisons:
        lines += ["", *comparison_lines(comparison, meta, width=width)]
    return lines


def run_markdown(body: RunBody, meta: Meta) -> str:
    """Return the report of a run as Markdown in which text from outside is inert."""
    head = f"# {markdown(meta.names[0])}\n\n{meta.experiments[0]} · {markdown(meta.dataset)} · {headline(body)}"
    rows = [
        "| arm | pass | 95% Wilson | trials |",
        "| --- | ---: | ---: | --- |",
        *(
            f"| {markdown(side.label)} | {percent(side.pass_share)}{partial_text(side)} | {_wilson(side)} "
            f"| {losses_text(side)} |"
            for side in body.arms
        ),
    ]
    parts = [head, "\n".join(rows), f"time {_spent(body, meta)}", *_again(meta)]
    if body.warnings:
        parts.append("\n".join(f"- {markdown(warning)}" for warning in body.warnings))
    parts += [comparison_markdown(comparison, meta) for comparison in body.comparisons]
    return "\n\n".join(parts) + "\n"


def headline(body: RunBody) -> str:
    """Return the run in one line of Markdown: the verdict of an A/B, the pass rate of a single arm."""
    if body.comparisons:
        return "; ".join(
            f"{markdown(comparison.a.label)} → {markdown(comparison.b.label)}: {verdict_markdown(comparison.decision)}"
            for comparison in body.comparisons
        )
    side = body.arms[0]
    return f"pass {percent(side.pass_share)} over {count(side.n_valued_cases, 'case')}{partial_text(side)}"


def cost_text(body: RunBody, meta: Meta) -> str:
    """Return what the run cost; what nobody reported is never 0."""
    n_done = sum(side.n_done for side in body.arms) + sum(each.n for each in meta.taken_back)
    if meta.cost_usd is None or not meta.n_with_cost:
        return NOT_REPORTED
    if meta.n_with_cost < n_done:
        return f"at least ${_plain(meta.cost_usd)} ({meta.n_with_cost:,} of {n_done:,} trials reported one)"
    return f"${_plain(meta.cost_usd)}"


def _plain(amount: str) -> str:
    # An exact decimal may be written 1E-7, which is no price to a reader.
    return f"{Decimal(amount):f}"


def _size(body: RunBody) -> str:
    return f"{count(body.arms[0].n_cases, 'case')}, {count(body.trials, 'trial')} each"


def _arm_lines(side: SideRecord, *, named: bool) -> list[str]:
    name = f"{visible(side.label)}  " if named else ""
    lines = [
        f"{name}pass {percent(side.pass_share)} {_wilson(side)} ({count(side.n_valued_cases, 'case')}, 95% Wilson)"
        f"{partial_text(side)}"
    ]
    lines.append(losses_text(side))
    if side.errors:
        lines.append(f"errors   {', '.join(error_texts(side))}")
    for score in side.scores:
        mean = NOT_REPORTED if score.mean is None else f"{score.mean:.3f}"
        left_out = [f"{score.n_no_score:,} without a score"] if score.n_no_score else []
        left_out += [count(score.n_errors, "error")] if score.n_errors else []
        told = f", {', '.join(left_out)}" if left_out else ""
        lines.append(f"grader   {visible(score.grader)}: mean {mean} over {count(score.n_scored, 'trial')}{told}")
    return lines


def _wilson(side: SideRecord) -> str:
    if side.pass_low is None or side.pass_high is None:
        return "no interval"
    return f"[{percent(side.pass_low)}, {percent(side.pass_high)}]"


def _spent(body: RunBody, meta: Meta) -> str:
    parts = f" (working time in {meta.parts} parts)" if meta.parts > 1 else ""
    repeats = f"   {count(meta.repeated_calls, 'call')} cut off by a stop or crash" if meta.repeated_calls else ""
    if meta.repeated_calls and meta.reserved_usd is not None:
        repeats += f", at most ${_plain(meta.reserved_usd)} more"
    return f"{duration(meta.duration_s)}{parts}   cost {cost_text(body, meta)}{repeats}"


def _again(meta: Meta) -> list[str]:
    """Return what was run again and why, for a reader who weighs the pass rates by it."""
    lines = []
    retried = [each for each in meta.taken_back if each.why == "retried"]
    if retried:
        names = ", ".join(count(each.n, *_OUTCOMES[each.outcome or ""]) for each in retried)
        lines.append(f"{names} run again by --retry-errors: a second chance that no other trial had")
    damaged = sum(each.n for each in meta.taken_back if each.why == "damaged")
    if damaged:
        lines.append(
            f"{count(damaged, 'stored answer')} could not be read any more and {_was(damaged)} asked for again"
        )
    return lines


def _was(n: int) -> str:
    return "was" if n == 1 else "were"
