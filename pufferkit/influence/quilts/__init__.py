"""Max-influence, and the Markov quilts that determine the noise."""
