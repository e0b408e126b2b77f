"""Randomised response on Markov chains: entries sanitised one by one, where they arise ([B]).

Each entry is kept or changed by its own coin, so nobody needs to be trusted with the true series.
What an output says about one entry then depends on its neighbours too, and on what an adversary
knows of them already. Two guarantees, never mixed up:

- ``"ignorant"``: the adversary knows the chain and no entry ([B] Theorem 1; Pufferfish for each
  entry);
- ``"every"``: the adversary may know any set of other entries ([B] Definition 4). The default,
  because knowing some entries can make the others tell *more* (see the errata of [B] Theorem 2).

>>> from pufferkit import MarkovChain
>>> from pufferkit.local import cheapest_noise
>>> mechanism = cheapest_noise(MarkovChain.steady([[0.8, 0.2], [0.35, 0.65]]), 2, "ignorant")
>>> [round(rho, 6) for rho in mechanism]
[0.342902, 0.255443]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pufferkit.local.bayesian_loss import loss as loss
    from pufferkit.local.bayesian_loss import tanh_bound as tanh_bound
    from pufferkit.local.cheapest import cheapest_noise as cheapest_noise
    from pufferkit.local.cheapest import constraint_planes as constraint_planes
    from pufferkit.local.correlated import XorChain as XorChain
    from pufferkit.local.correlated import correlated_noise_rows as correlated_noise_rows
    from pufferkit.local.estimates import Estimates as Estimates
    from pufferkit.local.estimates import estimate as estimate
    from pufferkit.local.losses import Loss as Loss
    from pufferkit.local.response import KaryResponse as KaryResponse
    from pufferkit.local.response import RandomizedResponse as RandomizedResponse
    from pufferkit.local.response import mechanism_from_json as mechanism_from_json
    from pufferkit.local.sanitizing import sanitize as sanitize

_HOMES = {
    "bayesian_loss": ["loss", "tanh_bound"],
    "cheapest": ["cheapest_noise", "constraint_planes"],
    "correlated": ["XorChain", "correlated_noise_rows"],
    "estimates": ["Estimates", "estimate"],
    "losses": ["Loss"],
    "response": ["KaryResponse", "RandomizedResponse", "mechanism_from_json"],
    "sanitizing": ["sanitize"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pufferkit.local' has no attribute {name!r}")
    value = getattr(import_module(f"pufferkit.local.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
