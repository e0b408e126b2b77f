"""Amounts of privacy as integers: millionths of epsilon, rounded up.

A number is read as the decimal it is written as, so 0.1 is exactly 100,000 millionths and three of
them are 300,000. Amounts spent are rounded up, budgets are rounded down.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache

from pufferkit import checks

MICRO = 10**6
PICO = 10**12
_MOST_BUDGET = 1e12
"""Totals stay within it, and a database keeps whole numbers of 64 bits."""


def spent_micro(epsilon: float) -> int:
    """Millionths of epsilon, rounded up."""
    return _units(checks.real("epsilon", epsilon), MICRO, ROUND_CEILING)


def allowed_micro(budget: float) -> int:
    """Millionths of a budget, rounded down."""
    allowed = checks.positive("budget", budget)
    if allowed > _MOST_BUDGET:
        raise ValueError(f"budget: must be at most {_MOST_BUDGET:g}, got {allowed:g}")
    return _units(allowed, MICRO, ROUND_FLOOR)


def spent_pico(b: float) -> int:
    """Event-level epsilon in units of 10^-12, rounded up; it can be far below a millionth."""
    return _units(checks.real("entry_epsilon", b), PICO, ROUND_CEILING)


def in_epsilon(micro: int) -> float:
    """A number of millionths as epsilon."""
    return micro / MICRO


def three_digits(epsilon: float) -> float:
    """Rounded down to three significant digits, so that the printed value is the one tested."""
    digits = Decimal(repr(epsilon))
    return float(digits.quantize(Decimal((0, (1,), digits.adjusted() - 2)), ROUND_FLOOR))


def show(micro: int) -> str:
    """An amount as text for messages: three decimals (0.600), or more where they are needed."""
    text = f"{Decimal(micro) / MICRO:.6f}".rstrip("0")
    whole, _, part = text.partition(".")
    return f"{whole}.{part:<03}".replace(" ", "0")


@lru_cache(1024)  # few amounts are spent often
def _units(value: float, units: int, rounding: str) -> int:
    return int((Decimal(repr(value)) * units).to_integral_value(rounding=rounding))
