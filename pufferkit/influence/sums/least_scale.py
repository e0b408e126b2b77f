"""The least scale of Laplace noise on one sum over a chain, by windows of growing reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from pufferkit.beliefs.chain_class import Member
from pufferkit.errors import NotApplicable, TakesLong
from pufferkit.influence.sums.entry_windows import SumWindow, SumWindows
from pufferkit.rounding import last_passing
from pufferkit.threads import one_thread

_FIRST_REACH = 8
_GOOD = 4e-4
_PRECISION = 1e-6
_ROUNDS = 8


@dataclass(frozen=True)
class LeastScale:
    """The least scale, the entry and window that determine it, and the least length for it."""

    scale: float
    entry: int
    left: int | None
    right: int | None
    enough: int


@one_thread()
def least_scale(
    member: Member,
    values: NDArray[np.int64],
    length: int,
    epsilon: float,
    most_work: float = inf,
) -> LeastScale:
    """The least Laplace scale, in units of the values, at which every entry loses at most epsilon.

    Windows grow, around the inner entries and the first one, until that gains hardly anything, or
    until all entries are inside. The search ends at a scale that was checked for every window. A
    series of at least ``enough`` entries has the same windows, and so the same scale.

    Raises
    ------
    NotApplicable
        If no window that is small enough gives a finite loss, or if it takes more
        than about ``most_work`` nanoseconds.
    """
    kept: tuple[SumWindows, float] | None = None
    inner: SumWindow | None
    reach, at_end = _FIRST_REACH, 0.0
    while True:
        inner = None  # makes room for a larger one
        try:
            windows = SumWindows(member, values, length, reach if 2 * reach < length else length)
        except NotApplicable:
            if kept is None:
                raise
            break
        if windows.work > most_work:
            raise TakesLong(
                f"windows of {windows.reach} entries on either side are needed, which takes long"
            )
        inner = windows.inner
        if inner is None:
            kept = windows, 0.0
            break
        if inner.error >= epsilon:
            if kept is None:
                raise NotApplicable(
                    f"epsilon {epsilon:g} is below the rounding error of the sums; use "
                    "influence_curve, or a larger one"
                )
            break
        start = kept[1] if kept is not None else 0.0
        scale = _scale_for(inner, epsilon, start)
        end = _scale_for(windows.window(1), epsilon, at_end)
        if scale is not None and end is not None:
            # The end matters if it needs more than the inner entries.
            ended = end <= scale or end > at_end * (1 - _GOOD)
            if ended and scale > start * (1 - _GOOD) and kept is not None:
                least = _over_all(windows, epsilon, scale, inner)
                if isinstance(least, LeastScale):
                    return least
            kept, at_end = (windows, scale), end
        reach += reach // 2
    least = _over_all(kept[0], epsilon, kept[1])
    if isinstance(least, int):
        raise NotApplicable(
            f"entry {least} has an infinite loss at every scale; use influence_curve"
        )
    return least


def _over_all(
    windows: SumWindows, epsilon: float, scale: float, inner: SumWindow | None = None
) -> LeastScale | int:
    """The least scale from ``scale`` up that passes every window, or an entry with none."""
    least: LeastScale | None = None
    for window in windows.windows(inner):
        if least is not None and window.loss(least.scale) <= epsilon:
            continue
        own = _scale_for(window, epsilon, scale if least is None else least.scale)
        if own is None:
            return window.entry
        entry = window.hardest(own)[1]
        least = LeastScale(own, entry, window.left, window.right, windows.enough)
    assert least is not None
    return least


def _scale_for(window: SumWindow, epsilon: float, near: float) -> float | None:
    """The least scale that passes for one window, searched from ``near``; ``None`` if none does.

    Searched where the ends are hardest, which is quick, then checked for all of them: if it does
    not pass, the ends that need more are added.
    """
    if window.loss(inf) > epsilon:
        return None  # the ends alone reveal more, whatever the noise
    for _ in range(_ROUNDS):
        scale = _searched(window, window.at_hardest_ends, epsilon, near)
        if scale is None or window.loss(scale) <= epsilon:
            return scale
        near = scale
    return _searched(window, window.loss, epsilon, near)


def _searched(
    window: SumWindow, loss: Callable[[float], float], epsilon: float, near: float
) -> float | None:
    # Changing everything in the window moves the sum by its range, so this always suffices if the
    # ends reveal little enough.
    most = 1e3 * window.parts.shape[2] / epsilon
    good = near if near > 0 else 1.0 / epsilon
    while loss(good) > epsilon:
        good *= 2
        if good > most:
            return None
    bad = good / 2
    while loss(bad) <= epsilon:
        good, bad = bad, bad / 2
        if bad < 1e-4 / epsilon:
            return good
    return last_passing(lambda scale: epsilon - loss(scale), good, bad, _PRECISION)
