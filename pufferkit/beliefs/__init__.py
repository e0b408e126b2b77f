"""What an adversary may believe about the data."""

from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.beliefs.markov_chain import MarkovChain

__all__ = ["ChainClass", "MarkovChain", "as_chain_class"]
