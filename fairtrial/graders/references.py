"""Graders that measure how near the answer is to a text or to the nearest of several: similarity, bleu, chrf.

Every measure is in [0, 1]. Its time grows faster than the texts, so texts past MAX_CHARACTERS are not measured.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fairtrial.errors import SpecError
from fairtrial.graders.pattern import ReadingGrader
from fairtrial.graders.reading import NoLabel, json_text, label_of, same_rule
from fairtrial.hashing import JsonValue
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case
from fairtrial.spec.models import BleuGrader, ChrfGrader, SimilarityGrader

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

MAX_CHARACTERS: Final = 100_000
"""Longest text that is measured: two of this length take about half a second."""


class ReferenceGrader(ReadingGrader):
    """The value of a measure, or with a threshold 1 from it on and 0 below."""

    def __init__(self, spec: SimilarityGrader | BleuGrader | ChrfGrader, *, name: str, version: str, place: str):
        super().__init__(spec, name=name, version=version, place=place)
        self._value: JsonValue = [*spec.value] if isinstance(spec.value, list) else spec.value
        self._threshold = spec.threshold
        if self._value == []:
            raise SpecError("an empty list leaves nothing to measure against.", place=f"{place}.value")

    async def judge(self, text: str, case: Case) -> Grade:
        label = label_of(case, self._value)
        if isinstance(label, NoLabel):
            return self.no_score(label.reason)
        references = self._references(label)
        if not references:
            return self.no_score("the expected value is an empty list")
        if max(map(len, references)) > MAX_CHARACTERS:
            return self.no_score(f"the expected value is longer than {MAX_CHARACTERS:,} characters")
        if len(text) > MAX_CHARACTERS:
            return self.scored(0, f"the output is longer than {MAX_CHARACTERS:,} characters and was not measured")
        value, about = self.measure(text, references)
        if self._threshold is None:
            return self.scored(value, about)
        return self.scored(value >= self._threshold, f"{about}, threshold {self._threshold:g}")

    @abstractmethod
    def measure(self, text: str, references: list[str]) -> tuple[float, str]:
        """Return the measure in [0, 1] and a few words with it."""

    def _references(self, label: JsonValue) -> list[str]:
        items = label if isinstance(label, list) else [label]
        texts = [same_rule(item) if isinstance(item, str) else json_text(item) for item in items]
        return [text.strip() if self.strips else text for text in texts]


class LikenessGrader(ReferenceGrader):
    """rapidfuzz's normalised similarity; of several texts the nearest counts, and equal texts have 1."""

    def __init__(self, spec: SimilarityGrader, *, name: str, version: str, place: str):
        super().__init__(spec, name=name, version=version, place=place)
        self._method = spec.method
        self._fold: Callable[[str], str] = str.casefold if spec.ignore_case else str
        self._alike = _likeness(spec.method)

    def measure(self, text: str, references: list[str]) -> tuple[float, str]:
        folded = self._fold(text)
        values = []
        for reference in map(self._fold, references):
            # Two texts without a word would have nothing in common by their words.
            values.append(1.0 if reference == folded else min(1.0, self._alike(folded, reference)))
        return max(values), f"{self._method} {max(values):.4f}"


class TranslationGrader(ReferenceGrader):
    """sacrebleu's score of one sentence over 100. The reason holds the signature that a paper would print."""

    def __init__(self, spec: BleuGrader | ChrfGrader, *, name: str, version: str, place: str):
        super().__init__(spec, name=name, version=version, place=place)
        self._metric = _metric(spec)

    def measure(self, text: str, references: list[str]) -> tuple[float, str]:
        found = self._metric.sentence_score(text, references)
        signature = str(self._metric.get_signature())
        _forget(self._metric)
        # An exact match comes out as 100.00000000000004.
        return min(1.0, found.score / 100), f"{found.name} {found.score:.2f} ({signature})"


def signature_of(spec: BleuGrader | ChrfGrader) -> str:
    """Return sacrebleu's signature without the number of references, which is each case's own. Raises SpecError."""
    metric = _metric(spec)
    metric.sentence_score("", [""])
    return "|".join(part for part in str(metric.get_signature()).split("|") if not part.startswith("nrefs:"))


def _likeness(method: str) -> Callable[[str, str], float]:
    from rapidfuzz import fuzz
    from rapidfuzz.distance import JaroWinkler, Levenshtein

    if method == "levenshtein":
        return lambda a, b: Levenshtein.normalized_similarity(a, b)
    if method == "jaro_winkler":
        return lambda a, b: JaroWinkler.normalized_similarity(a, b)
    if method == "token_sort":
        return lambda a, b: fuzz.token_sort_ratio(a, b) / 100
    return lambda a, b: fuzz.token_set_ratio(a, b) / 100


def _metric(spec: BleuGrader | ChrfGrader) -> Metric:
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise SpecError(
            f'the grader "{spec.kind}" needs the package sacrebleu, which is not installed.',
            hint='Install it with: pip install "fairtrial[bleu]".',
        ) from None
    if isinstance(spec, BleuGrader):
        # Short answers have no runs of four words; without this they would all score near 0.
        return BLEU(effective_order=True, tokenize=spec.tokenize, lowercase=spec.lowercase)
    return CHRF(word_order=spec.word_order, lowercase=spec.lowercase)


def _forget(metric: Metric) -> None:
    """Empty the caches of sacrebleu's tokenizers, which would keep the text of 65,536 answers."""
    tokenizer = getattr(metric, "tokenizer", None)
    for part in (tokenizer, getattr(tokenizer, "_post_tokenizer", None)):
        clear = getattr(type(part).__call__, "cache_clear", None)
        if clear is not None:
            clear()
