"""Randomised response on Markov chains: entries sanitised one by one, where they arise ([B]).

Each entry is kept or changed at random, so no collector needs to be trusted with the true series.
(`CorrelatedResponse` keeps one bit from entry to entry, on the device.) What an output reveals
about one entry also depends on its neighbours, and on what an adversary already knows about them.
There are two separate guarantees:

- ``"ignorant"``: the adversary knows the chain and no entry ([B] Theorem 1; Pufferfish for each
  entry);
- ``"every"``: the adversary may know any set of other entries ([B] Definition 4). The default,
  because knowing some entries can make the others *more* informative (see the errata of [B] Theorem
  2).

>>> from pufferkit import MarkovChain
>>> from pufferkit.local import cheapest_noise
>>> mechanism = cheapest_noise(MarkovChain.steady([[0.8, 0.2], [0.35, 0.65]]), 2, "ignorant")
>>> [round(rho, 6) for rho in mechanism]
[0.342902, 0.255443]
"""

from pufferkit.local.correlated import XorChain, correlated_noise_rows
from pufferkit.local.estimates import Estimates, estimate
from pufferkit.local.least_noise import cheapest_noise, constraint_planes
from pufferkit.local.losses import Loss, loss, tanh_bound
from pufferkit.local.responses import (
    CorrelatedResponse,
    KaryResponse,
    MatrixResponse,
    RandomizedResponse,
    mechanism_from_json,
)
from pufferkit.local.sanitizing import sanitize

__all__ = [
    "CorrelatedResponse",
    "Estimates",
    "KaryResponse",
    "Loss",
    "MatrixResponse",
    "RandomizedResponse",
    "XorChain",
    "cheapest_noise",
    "constraint_planes",
    "correlated_noise_rows",
    "estimate",
    "loss",
    "mechanism_from_json",
    "sanitize",
    "tanh_bound",
]
