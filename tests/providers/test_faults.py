"""One table says what a fault is, and the page on providers is made of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.providers.faults import CODES, FAULTS, STATUSES, ErrorObject, error_object, infra_error, kind_of
from fairtrial.providers.retry_after import LONGEST_RETRY_AFTER_S, retry_after_s

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "providers.md"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, "redirect"),
        (400, "bad_request"),
        (401, "not_authorised"),
        (402, "out_of_money"),
        (403, "not_allowed"),
        (404, "not_found"),
        (408, "server_error"),
        (409, "server_error"),
        (413, "too_long"),
        (418, "bad_request"),
        (422, "bad_request"),
        (429, "rate_limit"),
        (500, "server_error"),
        (502, "server_error"),
        (503, "overloaded"),
        (504, "server_error"),
        (529, "overloaded"),
        (999, "bad_answer"),
    ],
)
def test_a_status_alone_has_a_kind(status: int, kind: str) -> None:
    assert kind_of(status, None) == kind


@pytest.mark.parametrize(
    ("status", "codes", "message", "kind"),
    [
        (429, ("insufficient_quota",), "", "out_of_money"),
        (429, ("project_spend_limit_exceeded", "insufficient_quota"), "", "out_of_money"),
        (429, ("rate_limit_error",), "", "rate_limit"),
        (429, ("invalid_request_error",), "", "rate_limit"),
        (500, ("insufficient_quota",), "", "out_of_money"),
        (500, ("content_filter",), "prompt is too long", "server_error"),
        (502, ("invalid_api_key",), "", "server_error"),
        (404, ("invalid_request_error",), "no such model", "not_found"),
        (400, ("invalid_request_error",), "You have reached your specified API usage limits.", "out_of_money"),
        (400, ("invalid_request_error",), "This model's maximum context length is 8 tokens.", "too_long"),
        (400, ("unheard_of",), "", "bad_request"),
        (200, ("502",), "", "server_error"),
        (200, ("unheard_of",), "", "error_in_answer"),
    ],
)
def test_a_code_decides_before_the_status_does(status: int, codes: tuple[str, ...], message: str, kind: str) -> None:
    assert kind_of(status, ErrorObject(codes, message)) == kind


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5), st.integers(0, 999))
def test_no_error_of_any_form_raises(value: object, status: int) -> None:
    for body in (value, {"error": value}, {"error": {"message": value, "code": value, "type": value}}):
        assert kind_of(status, error_object(body, is_error=True)) in FAULTS  # type: ignore[arg-type]


def test_the_tables_name_kinds_that_there_are() -> None:
    assert {*STATUSES.values(), *CODES.values()} <= set(FAULTS)


def test_a_providers_word_on_another_try_counts_but_lifts_no_stop() -> None:
    assert infra_error("server_error", "m", again=False).retryable is False
    assert infra_error("bad_request", "m", again=True).retryable is True
    assert infra_error("not_authorised", "m", again=True).retryable is False
    assert infra_error("timeout", "m", again=True).retryable is False


def test_every_kind_is_on_the_page_with_what_is_done_about_it() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| ([a-z]+) \| (.+?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {kind: (action, about) for kind, action, about in rows} == {
        kind: (fault.action, fault.about) for kind, fault in FAULTS.items()
    }


# --- Retry-After ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        ("2.5", 2.5),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("-5", 0.0),
        ("-1e9", 0.0),
        ("1e9", LONGEST_RETRY_AFTER_S),
        ("1e999", LONGEST_RETRY_AFTER_S),
        ("9" * 30, LONGEST_RETRY_AFTER_S),
        ("NaN", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        ("1_0", None),
        ("٣", None),
        ("9" * 5000, None),
        ("Tue, 01 Dec 2026 12:00:20 GMT", 20.0),
        ("Tue, 01 Dec 2026 12:00:20", 20.0),
        ("Tue, 01 Dec 2026 14:00:20 +0200", 20.0),
        ("Tuesday, 01-Dec-26 12:00:20 GMT", 20.0),
        ("Tue, 01 Dec 2026 11:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_RETRY_AFTER_S),
        ("Fri, 31 Dec 9999 23:59:59 -2359", LONGEST_RETRY_AFTER_S),
        ("Tue, 99 Dec 2026 12:00:20 GMT", None),
    ],
)
def test_r22_k65_retry_after_is_between_nothing_and_the_cap(value: str, seconds: float | None) -> None:
    assert retry_after_s([("Retry-After", value)], now=NOW) == seconds


def test_r22_of_two_headers_the_longer_wait_counts() -> None:
    assert retry_after_s([("retry-after", "3"), ("retry-after", "5"), ("x", "9")], now=NOW) == 5.0
    assert retry_after_s([("retry-after", "soon"), ("retry-after", "-5")], now=NOW) == 0.0
    assert retry_after_s([("retry-after-ms", "1500"), ("retry-after", "1")], now=NOW) == 1.5
    assert retry_after_s([("x-other", "3")], now=NOW) is None


@given(
    st.text(max_size=60)
    | st.floats().map(str)
    | st.datetimes().map(lambda date: f"{date:%a, %d %b} {date.year} 1:2:3 GMT")
)
def test_r22_no_header_raises_or_leaves_the_range(value: str) -> None:
    seconds = retry_after_s([("retry-after", value)], now=NOW + timedelta(hours=1))
    assert seconds is None or 0.0 <= seconds <= LONGEST_RETRY_AFTER_S
