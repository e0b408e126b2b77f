"""Classes of beliefs: what an adversary may believe about the data.

A class is registered when its module is loaded, so all of them are loaded here.
"""

from pufferkit.beliefs import (  # noqa: F401  (each registers its class)
    bayesian_network,
    event_class,
    finite_class,
    finite_joint,
    hull_class,
    markov_random_field,
    mixing_class,
    order_class,
    regime_class,
    region_class,
    seasonal_class,
)
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.beliefs.markov_chain import MarkovChain

__all__ = ["ChainClass", "MarkovChain", "as_chain_class"]
