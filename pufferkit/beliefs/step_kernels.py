"""One step of a hidden chain, forward and backward, in the form that curves take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pufferkit import checks
from pufferkit.checks import Floats


@dataclass(frozen=True, eq=False)
class StepKernels(checks.Frozen):
    """One step W_t -> W_{t+1} of a hidden chain with entries X."""

    forward: Floats
    """P(W_{t+1} = w' | W_t = w), row w."""
    backward: Floats
    """P(W_t = w | W_{t+1} = w'), row w'. The row of a state that cannot occur may be anything; it
    is the distribution of W_t."""
    distribution: Floats
    """The distribution of W_{t+1}."""
    posterior: Floats
    """Pi(x, w) = P(W_{t+1} = w | X_{t+1} = x), a row for each level x."""

    def __post_init__(self) -> None:
        for name in ("forward", "backward", "distribution", "posterior"):
            object.__setattr__(self, name, checks.frozen(np.array(getattr(self, name))))

    @classmethod
    def after(cls, before: Floats, forward: Floats, shown: Floats) -> StepKernels:
        """One step by ``forward`` from the distribution ``before``.

        With m the distribution before and m' = m K after it, backward(w', w) = m(w) K(w, w') /
        m'(w') and Pi(x, w) is proportional to m'(w) s(w, x), s = ``shown`` the distribution of the
        entry in each state.
        """
        flow = before[:, None] * forward
        after = flow.sum(axis=0)
        return cls(forward, shares(flow.T, before), after, posterior_of(after[:, None] * shown))


def shares(weights: Floats, otherwise: Floats | None = None) -> Floats:
    """Rows (along the last axis) scaled to sum to one; rows of zeros become ``otherwise``."""
    totals = weights.sum(axis=-1, keepdims=True)
    if otherwise is not None and (totals == 0).any():
        return shares(np.where(totals > 0, weights, otherwise))
    scaled: Floats = weights / totals
    return scaled


def posterior_of(joint: Floats) -> Floats:
    """Pi(x, w) = P(W = w | X = x) of a joint table with a row for each w.

    A level that cannot occur has no posterior; it gets the distribution of W.
    """
    return checks.frozen(shares(joint.T, joint.sum(axis=1)))
