"""Every statistic that reports print has a page, and a page says the same five things."""

from __future__ import annotations

from pathlib import Path

import pytest

from stats.decision import REASONS

DOCS = Path(__file__).resolve().parents[2] / "docs"

# Module: its pages.
PAGES = {
    "adjusted": ["adjusted"],
    "bootstrap": ["bootstrap"],
    "clusters": ["clusters"],
    "decision": ["decision"],
    "holm": ["holm"],
    "losses": ["losses"],
    "mcnemar": ["mcnemar"],
    "means": ["means"],
    "noninferiority": ["noninferiority"],
    "paired_tests": ["paired-tests"],
    "pairing": ["pairing"],
    "posterior": ["posterior"],
    "power": ["power"],
    "regression": ["regression"],
    "trials": ["pass-at-k", "gained-and-lost", "flip-rate", "variance"],
    "wilson": ["wilson"],
}
METHOD_PARTS = ["# ", "`", "## What it means", "## Formula", "## Source", "## When it misleads"]
REASON_PARTS = ["## What it means", "## Why it matters", "## What to do", "stats/decision.py"]


@pytest.mark.parametrize("name", sorted(page for pages in PAGES.values() for page in pages))
def test_a_method_has_a_page_with_every_part(name: str) -> None:
    text = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
    assert [part for part in METHOD_PARTS if part not in text] == []
    assert 15 <= len(text.splitlines()) <= 40


@pytest.mark.parametrize("code", sorted(REASONS))
def test_a_reason_has_a_page_with_every_part(code: str) -> None:
    text = (DOCS / "reasons" / f"{code}.md").read_text(encoding="utf-8")
    assert [part for part in [f"# `{code}`", *REASON_PARTS] if part not in text] == []
    assert 15 <= len(text.splitlines()) <= 40


@pytest.mark.parametrize("page", sorted((DOCS / "methods").glob("*.md")) + sorted((DOCS / "reasons").glob("*.md")))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = [part.split(")")[0] for part in text.split("](")[1:]]
    assert [target for target in targets if target.endswith(".md") and not (page.parent / target).is_file()] == []
