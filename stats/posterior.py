"""P(B > A) for small samples, printed beside the interval and never instead of it.

Whole flips go in, not pass rates: a fraction of a flip does not exist.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special

from stats.bootstrap import CHUNK_VALUES, distinct_values, mirror_sign
from stats.results import Floats, Generator, Ints

SHOWN_BELOW = 100
"""With this many paired cases or more the posterior adds nothing and is not printed."""

N_DRAWS = 100_000
"""Draws of the posterior when cases have several trials."""


def p_b_better(*, improved: int, regressed: int) -> float:
    """Return the posterior probability that B passes more often than A, one trial per case.

    improved, regressed   counts of flipped cases; cases that did not flip cancel out; 0.5 without a flip

    Uniform Dirichlet prior on the paired 2x2 table; in closed form P(Bin(flips + 1, 1/2) <= improved).
    """
    if improved < 0 or regressed < 0:
        raise ValueError(f"counts cannot be negative: improved={improved}, regressed={regressed}")
    return float(special.bdtr(int(improved), int(improved + regressed + 1), 0.5))


def p_b_better_by_trials(
    differences: npt.ArrayLike, *, min_trials: int, rng: Generator, n_draws: int = N_DRAWS
) -> float:
    """Return the posterior probability that the mean difference is above 0, several trials per case.

    differences   shape (cases,), shares in [-1, 1], complete
    min_trials    smallest number of graded trials of a side; the prior is a pseudo-case at ± 1/min_trials
    returns       exact for one trial, and 0.5 when no case moved; else from `n_draws` draws, error below 0.002

    Bayesian bootstrap (Rubin 1981) with the prior of `p_b_better`, of which it is the extension.
    """
    data: Floats = np.sort(np.asarray(differences, dtype=np.float64))
    if min_trials < 1:
        raise ValueError(f"every paired case has at least one trial: min_trials={min_trials}")
    if data.ndim != 1 or not np.isfinite(data).all():
        raise ValueError("differences must be a list of finite numbers")
    if not np.any(data):
        return 0.5
    if min_trials == 1 and np.isin(data, (-1.0, 0.0, 1.0)).all():
        return p_b_better(improved=int(np.count_nonzero(data > 0)), regressed=int(np.count_nonzero(data < 0)))
    with_prior = np.sort(np.append(data, (-1.0 / min_trials, 1.0 / min_trials)))
    sign = mirror_sign(with_prior)
    values, counts = distinct_values(with_prior if sign > 0 else -with_prior[::-1])
    share = _share_above_zero(values, counts, rng=rng, n_draws=n_draws)
    return share if sign > 0 else 1.0 - share


def _share_above_zero(values: Floats, counts: Ints, *, rng: Generator, n_draws: int) -> float:
    # The common scale of gamma weights does not change a sign, so they need not be turned into shares.
    moved = values != 0.0
    values, counts = values[moved], counts[moved]
    rows = max(1, CHUNK_VALUES // values.size)
    above = 0
    for start in range(0, n_draws, rows):
        weights = rng.standard_gamma(counts, size=(min(rows, n_draws - start), values.size))
        above += int(np.count_nonzero(weights @ values > 0.0))
    return above / n_draws
