"""What human labels promise: the corrected interval covers the truth with 20 labels and more. Seeded."""

from __future__ import annotations

import numpy as np
import pytest

from stats.ppi import ppi_difference

pytestmark = pytest.mark.slow

RUNS = 4_000


@pytest.mark.parametrize(("labels", "bound"), [(20, 0.935), (50, 0.945)])
@pytest.mark.parametrize("agreement", [0.0, 0.6, 0.9])
def test_the_interval_covers_the_human_difference(labels: int, bound: float, agreement: float) -> None:
    """Continuous differences; the judge is off by a constant and follows the humans as far as `agreement`."""
    rng = np.random.default_rng(labels + int(10 * agreement))
    covered, shorter = 0, 0
    for _ in range(RUNS):
        human = rng.normal(0.05, 0.3, size=labels + 150)
        judge = 0.1 + agreement * human + np.sqrt(1 - agreement**2) * rng.normal(0.0, 0.3, size=human.size)
        result = ppi_difference(human[:labels], judge[:labels], judge[labels:])
        alone = ppi_difference(human[:labels], judge[:labels], [])
        assert result.interval is not None
        assert alone.interval is not None
        covered += result.interval.holds(0.05)
        shorter += result.interval.high - result.interval.low < alone.interval.high - alone.interval.low
    assert covered / RUNS >= bound - 3 * np.sqrt(bound * (1 - bound) / RUNS)
    if agreement == 0.9:
        assert shorter / RUNS > 0.99


@pytest.mark.parametrize(("labels", "bound"), [(20, 0.935), (50, 0.945)])
def test_the_interval_covers_on_pass_fail_differences(labels: int, bound: float) -> None:
    rng = np.random.default_rng(labels)
    covered = 0
    for _ in range(RUNS):
        human = rng.choice([1.0, -1.0, 0.0], size=labels + 150, p=[0.3, 0.2, 0.5])
        judge = np.where(rng.random(human.size) < 0.8, human, rng.choice([1.0, -1.0, 0.0], size=human.size))
        interval = ppi_difference(human[:labels], judge[:labels], judge[labels:]).interval
        covered += interval is not None and interval.holds(0.1)
    assert covered / RUNS >= bound - 3 * np.sqrt(bound * (1 - bound) / RUNS)
