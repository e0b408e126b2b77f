"""A local mechanism with nothing but what an audit needs."""

from dataclasses import dataclass

import numpy as np

import pufferkit as pk


@dataclass(frozen=True)
class Response:
    """Keeps a state, or answers each other one with probability rho."""

    chain: pk.MarkovChain
    rho: float
    epsilon: float
    adversary: str = "ignorant"
    name: str = "response"

    @property
    def matrix(self) -> np.ndarray:
        size = len(self.chain)
        return np.eye(size) * (1 - size * self.rho) + self.rho


def symmetric(theta: float) -> pk.MarkovChain:
    return pk.MarkovChain.steady([[1 - theta, theta], [theta, 1 - theta]])
