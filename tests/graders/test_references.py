"""similarity, bleu and chrf against numbers from elsewhere: papers, documentations, and counts by hand beside them."""

from __future__ import annotations

import importlib.metadata
import math
import subprocess
import sys
from typing import Any

import pytest

from fairtrial.errors import SpecError
from fairtrial.graders.references import MAX_CHARACTERS, signature_of
from fairtrial.graders.version import grader_version
from fairtrial.hashing import content_hash
from fairtrial.spec.models import BleuGrader, ChrfGrader

SACREBLEU = importlib.metadata.version("sacrebleu")
CAT = "the cat is on the mat"


@pytest.mark.parametrize(
    ("method", "answer", "expected", "value"),
    [
        # Three edits; the longer has seven letters.
        ("levenshtein", "kitten", "sitting", 1 - 3 / 7),
        ("levenshtein", "", "abc", 0.0),
        ("levenshtein", "é", "e\u0301", 0.0),
        # Winkler 1990, table of examples.
        ("jaro_winkler", "MARTHA", "MARHTA", 0.9611),
        ("jaro_winkler", "DIXON", "DICKSONX", 0.8133),
        ("jaro_winkler", "DWAYNE", "DUANE", 0.8400),
        # The documentation of rapidfuzz.fuzz: 100; 84.21 = 2 · 16 / (16 + 22) of "a bear fuzzy (fuzzy) was"; 100.
        ("token_sort", "fuzzy wuzzy was a bear", "wuzzy fuzzy was a bear", 1.0),
        ("token_sort", "fuzzy was a bear", "fuzzy fuzzy was a bear", 32 / 38),
        ("token_set", "fuzzy was a bear", "fuzzy fuzzy was a bear", 1.0),
        ("token_set", "fuzzy was a bear but not a dog", "fuzzy was a bear", 1.0),
    ],
)
def test_a_likeness_is_the_published_one(grade: Any, method: str, answer: str, expected: str, value: float) -> None:
    found = grade(answer, expected=expected, kind="similarity", method=method)
    assert found.score == pytest.approx(value, abs=5e-5)
    assert found.reason.decode() == f"{method} {found.score:.4f}"


@pytest.mark.parametrize("method", ["levenshtein", "jaro_winkler", "token_sort", "token_set"])
@pytest.mark.parametrize("text", ["", "a", "...", "two words", "é🦊"])
def test_equal_texts_have_1_by_every_method(grade: Any, method: str, text: str) -> None:
    assert grade(text, expected=text, kind="similarity", method=method).score == 1


def test_of_several_texts_the_nearest_counts(grade: Any) -> None:
    assert grade("kitten", expected=["dog", "sitting", ""], kind="similarity").score == pytest.approx(4 / 7)
    assert grade("kitten", kind="similarity", value=["mitten", "x"]).score == pytest.approx(5 / 6)


def test_case_counts_unless_it_is_ignored(grade: Any) -> None:
    assert grade("STRASSE", expected="Straße", kind="similarity").score < 0.5
    assert grade("STRASSE", expected="Straße", kind="similarity", ignore_case=True).score == 1


@pytest.mark.parametrize(("threshold", "score"), [(0.57, 1.0), (0.58, 0.0)])
def test_a_threshold_makes_it_pass_or_fail_and_the_value_stays_in_the_reason(
    grade: Any, threshold: float, score: float
) -> None:
    found = grade("kitten", expected="sitting", kind="similarity", threshold=threshold)
    assert (found.score, found.reason.decode()) == (score, f"levenshtein 0.5714, threshold {threshold}")


@pytest.mark.parametrize("threshold", [0, -0.1, 1.01])
@pytest.mark.parametrize("kind", ["similarity", "bleu", "chrf"])
def test_w05_a_threshold_that_all_or_none_could_reach_is_refused(build: Any, kind: str, threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold"):
        build(kind=kind, threshold=threshold)


@pytest.mark.parametrize(
    ("answer", "references", "value"),
    [
        (CAT, [CAT], 1.0),
        # Runs of 1, 2, 3, 4 words: 5 of 6, 3 of 5, 1 of 4, none of 3, which counts as half of one (smoothing "exp").
        ("the cat sat on the mat", [CAT], (5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** (1 / 4)),
        # Papineni 2002: "the" counts twice, as in one reference; then 1/2 of 6, 1/4 of 5, 1/8 of 4.
        ("the the the the the the the", [CAT, "there is a cat on the mat"], (2 / 7 / 12 / 20 / 32) ** (1 / 4)),
        # All right but two words of four: brevity penalty e^(1 - 4/2).
        ("the cat", ["the cat sat on"], math.exp(-1)),
        ("dog", [CAT], 0.0),
        ("", [CAT], 0.0),
    ],
)
def test_bleu_is_the_count_by_hand(grade: Any, answer: str, references: list[str], value: float) -> None:
    assert grade(answer, expected=references, kind="bleu").score == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(
    ("answer", "reference", "word_order", "value"),
    [
        # Letters: precision 1, recall 2/3; pairs: 1 and 1/2; longer runs are not in the answer. F2 of 1 and 7/12.
        ("ab", "abc", 0, 5 * 7 / 12 / (4 + 7 / 12)),
        # Letters 1/2, pairs 0, words 1/2, pairs of words 0, precision as recall: the mean is 1/4.
        ("a b", "a c", 2, 1 / 4),
        ("the cat", "the cat", 0, 1.0),
        ("", "a", 0, 0.0),
        ("xyz", "abc", 0, 0.0),
    ],
)
def test_chrf_is_the_count_by_hand(grade: Any, answer: str, reference: str, word_order: int, value: float) -> None:
    found = grade(answer, expected=reference, kind="chrf", word_order=word_order)
    assert found.score == pytest.approx(value, abs=1e-9)


def test_the_reason_holds_the_signature(grade: Any) -> None:
    bleu = grade("the cat", expected=["the cat sat on", "x"], kind="bleu", threshold=0.5)
    signature = f"nrefs:2|case:mixed|eff:yes|tok:13a|smooth:exp|version:{SACREBLEU}"
    # The nearer reference in length is x, so nothing is taken off for brevity.
    assert (bleu.score, bleu.reason.decode()) == (1.0, f"BLEU 100.00 ({signature}), threshold 0.5")
    chrf = grade("ab", expected="ABC", kind="chrf", word_order=2, lowercase=True)
    assert chrf.reason.decode().endswith(f"(nrefs:1|case:lc|eff:yes|nc:6|nw:2|space:no|version:{SACREBLEU})")
    assert chrf.reason.startswith(b"chrF2++ ")


@pytest.mark.parametrize("tokenize", ["13a", "intl", "char", "zh", "none"])
def test_w05_every_way_to_cut_words_works_without_a_download(grade: Any, tokenize: str) -> None:
    found = grade("猫は赤い。 A cat.", expected="猫は赤い。 A cat.", kind="bleu", tokenize=tokenize)
    assert found.score == 1
    assert f"tok:{tokenize}|".encode() in found.reason


def test_no_text_stays_in_the_caches_of_the_tokenizer(grade: Any) -> None:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
    from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

    grade("the cat", expected="the cat sat", kind="bleu")
    for tokenizer in (Tokenizer13a, TokenizerRegexp):
        assert tokenizer.__call__.cache_info().currsize == 0


def test_k51_the_signature_is_in_the_version(tmp_path: Any) -> None:
    bleu, chrf = BleuGrader(kind="bleu"), ChrfGrader(kind="chrf", word_order=2)
    signature = f"case:mixed|eff:yes|tok:13a|smooth:exp|version:{SACREBLEU}"
    assert signature_of(bleu) == signature
    assert signature_of(chrf) == f"case:mixed|eff:yes|nc:6|nw:2|space:no|version:{SACREBLEU}"
    assert grader_version(bleu, tmp_path).parts["signature"] == content_hash(signature)


@pytest.mark.parametrize("kind", ["similarity", "bleu", "chrf"])
def test_what_cannot_be_measured_is_said(grade: Any, build: Any, kind: str) -> None:
    at_most, too_long = "a" * MAX_CHARACTERS, "a" * (MAX_CHARACTERS + 1)
    assert grade(at_most, expected="a", kind=kind).state == "scored"
    found = grade(too_long, expected="a", kind=kind)
    assert (found.score, found.reason) == (0.0, b"the output is longer than 100,000 characters and was not measured")
    assert grade("a", expected=["a", too_long], kind=kind).state == "no_score"
    assert grade("a", expected=[], kind=kind).reason == b"the expected value is an empty list"
    assert grade("a", kind=kind).reason == b"case has no expected value"
    with pytest.raises(SpecError, match=r"^graders\[0\]\.value: an empty list"):
        build(kind=kind, value=[])


def test_a_label_that_is_no_text_is_measured_as_json(grade: Any) -> None:
    assert grade('{"a":1}', expected={"a": 1}, kind="similarity").score == 1
    assert grade("12", expected=12, kind="chrf").score == 1


def test_r39_bytes_of_any_kind_are_measured(grade: Any) -> None:
    for kind in ("similarity", "bleu", "chrf"):
        assert grade(b"\xff\xfe\x00\xed\xa0\x80", expected="\ud800\u202e", kind=kind).state == "scored"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_without_sacrebleu_its_graders_say_what_to_install() -> None:
    told = run(
        "import sys, pathlib; sys.modules['sacrebleu'] = None\n"
        "from fairtrial.errors import SpecError\n"
        "from fairtrial.graders.build import grader_version\n"
        "from fairtrial.spec.models import BleuGrader, ExactGrader\n"
        "grader_version(ExactGrader(kind='exact'), pathlib.Path('.'))\n"
        "try: grader_version(BleuGrader(kind='bleu'), pathlib.Path('.'))\n"
        "except SpecError as error: print(error, error.hint)\n"
    )
    assert told.startswith('the grader "bleu" needs the package sacrebleu, which is not installed.')
    assert told.endswith('Install it with: pip install "fairtrial[bleu]".')


def test_libraries_of_single_graders_are_loaded_when_they_are_used() -> None:
    loaded = run(
        "import sys\nimport fairtrial.graders.build, fairtrial.graders.catalogue, fairtrial.graders.references\n"
        "print([name for name in ('sacrebleu', 'jsonschema', 'referencing', 'lxml') if name in sys.modules])"
    )
    assert loaded == "[]"
