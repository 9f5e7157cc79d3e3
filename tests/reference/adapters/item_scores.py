"""Feeds the vectors of item_scores.json to precision, recall and F1."""

from __future__ import annotations

from typing import Any

from stats.item_scores import item_score


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    score = item_score(input["written"], input["labelled"])
    return {"precision": score.precision, "recall": score.recall, "f1": score.f1}
