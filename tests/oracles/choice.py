"""The distribution of a noisy choice by its formula, and quantiles by their definition."""

from __future__ import annotations

from itertools import combinations
from math import exp


def chosen(scores, scale):
    """P(place j has the largest sum of score and exponential noise), for all j.

    With x_i = e^{(u_i - max u) / s} it is x_j times the sum over sets S of the other places of
    (-1)^|S| / (|S| + 1) times the product of their x_i.
    """
    top = max(scores)
    odds = [exp((score - top) / scale) for score in scores]
    out = []
    for j, own in enumerate(odds):
        others = odds[:j] + odds[j + 1 :]
        total = 0.0
        for size in range(len(others) + 1):
            for some in combinations(others, size):
                product = 1.0
                for x in some:
                    product *= x
                total += (-1) ** size / (size + 1) * product
        out.append(own * total)
    return out


def misses(counts, share):
    """By how many ranks each level misses the quantile: sorted entries, counted one by one."""
    n, wanted, out = sum(counts), share * sum(counts), []
    for level in range(len(counts)):
        below = sum(counts[:level])
        upto = below + counts[level]
        assert upto <= n
        out.append(max(0, below - wanted, wanted - upto))
    return out
