"""Random graphs with random potentials."""

import numpy as np

import pufferkit as pk
from pufferkit.influence.curve.graphs import GraphCurve


def curve_of(models, distance=None):
    """The curve of a network or field, or of several over the same nodes."""
    models = models if isinstance(models, list) else [models]
    states = dict.fromkeys(v for model in models for own in model.values.values() for v in own)
    return GraphCurve(models, tuple(states), distance)


def random_field(seed, most=7, values=2, zeros=False, strength=0.6):
    """A Markov random field of a few nodes, some of them with up to ``values`` values."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, most + 1))
    sizes = [int(rng.integers(2, values + 1)) for _ in range(count)]
    potentials = {(n,): np.exp(rng.normal(0, 0.7, sizes[n])) for n in range(count)}
    for one in range(count):
        for other in range(one):
            if rng.random() < 0.55:
                table = np.exp(rng.normal(0, strength, (sizes[one], sizes[other])))
                if zeros:
                    table[rng.random(table.shape) < 0.25] = 0.0
                    table[0, 0] = 1.0
                potentials[one, other] = table
    return pk.MarkovRandomField(potentials, {n: range(size) for n, size in enumerate(sizes)})


def factors_of(field):
    """Sizes and logarithms of factors, for the oracles."""
    sizes = [len(field.values[node]) for node in field.nodes]
    place = {node: n for n, node in enumerate(field.nodes)}
    with np.errstate(divide="ignore"):
        factors = [
            (tuple(place[node] for node in scope), np.log(table))
            for scope, table in field.potentials.items()
        ]
    return sizes, factors
