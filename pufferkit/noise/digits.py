"""Binary digits of probabilities that are functions of e^{-x}, for a fraction x.

Every digit is certain. Integer arithmetic, rounded outwards, encloses e^{-x} between two
fixed-point numbers. The probability increases with e^{-x}, so it is enclosed too, and if both ends
begin with the same digits, these are its digits. Otherwise the enclosure is refined. This
terminates, because e^x is irrational for every fraction x other than 0 (Lambert 1761), and so are
the probabilities here: none of them is a binary fraction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Literal

WhichBits = Literal["power", "odds", "nonzero"]
"""With a = e^{-x}: a itself; a / (1 + a), which is heads with odds a; or 2 a / (1 + a)."""

WORD_BITS = 64
_GUARD = 128
"""Extra digits of e^{-x} beyond those needed; squaring sixty times uses up half of them."""


def digits(shape: WhichBits, x: Fraction, number: int) -> int:
    """The first binary digits of a probability, as the whole number floor(p 2^number)."""
    bits = number + _GUARD
    while True:
        ends = [_floor(shape, end, bits, number) for end in enclosed(x, bits)]
        if ends[0] == ends[1]:
            return ends[0]
        bits *= 2


def first_words(wanted: Iterable[tuple[WhichBits, int]], x: Fraction) -> Iterator[int]:
    """The first 64 digits of several probabilities, functions of e^{-x 2^i} with i increasing.

    [l, h] encloses a in units of 2^-b, so [l^2, h^2] encloses a^2 in units of 2^-2b; both are
    rounded outwards to units of 2^-b. A word that this leaves uncertain is computed by itself.
    """
    bits = WORD_BITS + _GUARD
    low, high = enclosed(x, bits)
    squared = 0
    for shape, i in wanted:
        for _ in range(i - squared):
            low, high = low * low >> bits, -(-high * high >> bits)
        squared = i
        word, other = (_floor(shape, end, bits, WORD_BITS) for end in (low, high))
        yield word if word == other else digits(shape, x * 2**i, WORD_BITS)


def _floor(shape: WhichBits, a: int, bits: int, number: int) -> int:
    """floor(p 2^number) where a is in units of 2^-bits; never decreases as a grows."""
    if shape == "power":
        return a << number >> bits
    twice = shape == "nonzero"
    return (a << number + twice) // ((1 << bits) + a)


def enclosed(x: Fraction, bits: int) -> tuple[int, int]:
    """Whole numbers l and h with l <= e^{-x} 2^bits <= h, a few units apart.

    Let y = x / 2^r be at most 1/2. Then

        e^y = sum over n of y^n / n!,

    all terms positive, each at most half of the one before (a quarter from the second on). The sum
    of terms rounded down is a lower bound. The sum of terms rounded up, until one is a single unit,
    and two units for all that follow, is an upper bound. 1 / e^y is squared r times, and every
    product is rounded outwards. For x above ``bits`` it is enough that e^{-x} < 2^{-x}.
    """
    if x <= 0:
        raise ValueError(f"x: must be above 0, got {x}")
    if x >= bits:
        return 0, 1
    halvings = int(2 * x).bit_length()
    fine = bits + 2 * halvings + 32
    one = 1 << fine
    y_low = (x.numerator << fine) // (x.denominator << halvings)
    low = high = term_low = term_high = one
    n = 0
    while term_high > 1:
        n += 1
        term_low = term_low * y_low // (n << fine)
        term_high = -(-term_high * (y_low + 1) // (n << fine))
        low, high = low + term_low, high + term_high
    low, high = one * one // (high + 2), -(-one * one // low)
    for _ in range(halvings):
        low, high = low * low >> fine, -(-high * high >> fine)
    surplus = fine - bits
    return low >> surplus, -(-high >> surplus)
