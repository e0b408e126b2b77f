"""What an epsilon means to a person: how far a release can move an adversary's belief."""

from __future__ import annotations

import math

from pufferkit import checks

_PRIOR = 0.1


def posterior(prior: float, loss: float) -> float:
    """The largest posterior after a release of an adversary with this prior.

    The odds p / (1 - p) grow at most by the factor e^loss, so the posterior is at most
    p e^loss / (1 - p + p e^loss).

    >>> round(1 / posterior(0.1, 1.0), 1)
    4.3
    """
    p = checks.real("prior", prior)
    if not 0 < p < 1:
        raise ValueError(f"prior: must lie between 0 and 1, got {prior!r}; for example 0.1")
    if loss > 700:
        return 1.0
    odds = p / (1 - p) * math.exp(loss)
    return odds / (1 + odds)


def one_in(probability: float) -> str:
    """A probability in words.

    >>> one_in(0.1), one_in(0.25), one_in(0.995)
    ('1 in 10', '1 in 4', '99.5%')
    """
    if probability > 0.5:
        return f"{100 * probability:.3g}%"
    return f"1 in {1 / probability:.2g}" if probability > 0.01 else f"1 in {1 / probability:,.0f}"


def in_odds(loss: float) -> tuple[str, ...]:
    """A loss in words: the posterior for a prior of 1 in 10, up and down."""
    up, down = posterior(_PRIOR, loss), 1 - posterior(1 - _PRIOR, loss)
    return (
        f"epsilon {loss:.4g}: a prior probability of {one_in(_PRIOR)} that an entry has a "
        f"value becomes at most {one_in(up)}, and at least {one_in(down)}",
    )
