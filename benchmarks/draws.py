"""Jobs of the table that draw: noise and randomised response, by us and by others."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

Work = Callable[[], object]


def draws(number: int) -> Work:
    from pufferkit.noise import discrete_laplace_rows

    return lambda: discrete_laplace_rows(
        np.zeros((number, 1), dtype=np.int64), np.full((number, 1), 10.0)
    )


def opendp_draws(number: int, atom: str = "i64", **grid: int) -> Work:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.atom_domain(T=float, nan=False) if atom == "f64" else dp.atom_domain(T=atom)
    space = dp.vector_domain(domain, size=number), dp.l1_distance(T=float)
    noise = dp.m.make_laplace(*space, scale=10.0, **grid)
    zeros = [0.0 if atom == "f64" else 0] * number
    return lambda: noise(zeros)


def grid_draws(number: int) -> Work:
    from pufferkit.noise import laplace

    zeros = [[Fraction(0)] * number]
    return lambda: laplace(zeros, [0], 10.0, float(number))


def scales_drawn(number: int) -> Work:
    from pufferkit.noise import discrete_laplace_rows

    rows, scales = np.zeros((number, 3), dtype=np.int64), np.linspace(1, 20, number)[:, None]
    return lambda: discrete_laplace_rows(rows, scales)


def unsafe_draws(number: int) -> Work:
    return lambda: np.random.default_rng().laplace(0, 10, number)


def answers(number: int) -> Work:
    from pufferkit.noise import flip_threshold, responses

    codes = np.random.default_rng(0).integers(0, 2, number).astype(np.uint8)
    return lambda: responses(codes, [flip_threshold(0.3, 2)] * 2)


def unsafe_answers(number: int) -> Work:
    codes = np.random.default_rng(0).integers(0, 2, number).astype(np.uint8)
    return lambda: codes ^ (np.random.default_rng().random(number) < 0.3)
