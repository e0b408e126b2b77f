"""Powers of a transition matrix and the largest log-ratios of their rows and columns.

Everything that privacy depends on here is a sum of products of non-negative numbers, so entries
have a small *relative* error: at most ``steps * k`` roundings for P^steps on k states, in whatever
order the products are taken. ``rounding`` bounds the error of a log-ratio that follows, and callers
add it.

Two things need more care than rounding.

- Zeros. Whether an entry is possible at all is stored separately, as an exact boolean pattern.
- Underflow. An entry that is possible but too small for a float has no known ratio to others, so a
  ratio over it counts as infinite. That can cost noise, never privacy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np

from pufferkit.beliefs.state_classes import boolean_product
from pufferkit.checks import Floats
from pufferkit.influence.kernels import Kernel, row_log_ratios
from pufferkit.rounding import EPS

_FAR = 1 << 20
"""Up to this many steps powers are used without a search; rounding does not matter yet."""


Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class Recent(Generic[Key, Made]):
    """What was made last, by its key: at least eight, and more within a limit of memory."""

    def __init__(self, each: int, memory: int) -> None:
        self._known: OrderedDict[Key, Made] = OrderedDict()
        self._room = max(8, memory // each)

    def get(self, key: Key, make: Callable[[], Made]) -> Made:
        """What has this key, made if need be."""
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        self._known[key] = made = make()
        if len(self._known) > self._room:
            self._known.popitem(last=False)
        return made


class Powers:
    """P^n for any n, by squaring, cached within a limit of memory."""

    def __init__(self, transition: Floats, memory: int = 1 << 29) -> None:
        self._known: Recent[int, Kernel] = Recent(9 * transition.size, memory)
        self._squares = [Kernel(transition, transition > 0)]
        self.size = len(transition)
        self._farthest: int | None = None

    def __getitem__(self, steps: int) -> Kernel:
        return self._known.get(steps, lambda: self._made(steps))

    def _made(self, steps: int) -> Kernel:
        low = steps & -steps
        while len(self._squares) < low.bit_length():
            self._squares.append(_product(self._squares[-1], self._squares[-1]))
        kernel = self._squares[low.bit_length() - 1]
        return kernel if low == steps else _product(self[steps - low], kernel)

    def rounding(self, steps: int) -> float:
        """Bound on the error of a log-ratio of entries of P^steps."""
        return 1e-13 + 3 * EPS * steps * (self.size + 2)

    def reach(self, steps: int) -> int:
        """A number of steps, at most ``steps``, whose log-ratios bound those after ``steps``.

        Log-ratios of rows and of columns never grow with the number of steps (data processing: a
        closer endpoint reveals at least as much), but the error of a computed power does. Where
        twice as many steps change the ratios by no more than that error, further ones would only
        add to it.
        """
        if steps <= _FAR:
            return steps
        if self._farthest is None:
            farthest, ratios = _FAR, row_log_ratios(self[_FAR])
            while True:
                further = row_log_ratios(self[2 * farthest])
                finite = np.isfinite(ratios)
                change = float(np.abs(ratios[finite] - further[finite]).max(initial=0.0))
                if change <= 4 * self.rounding(2 * farthest):
                    break
                farthest, ratios = 2 * farthest, further
            self._farthest = farthest
        return min(steps, self._farthest)


def _product(first: Kernel, second: Kernel) -> Kernel:
    return Kernel(first.values @ second.values, boolean_product(first.possible, second.possible))
