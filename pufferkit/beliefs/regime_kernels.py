"""Hidden regimes in the form that the pairwise curve takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pufferkit.beliefs.hidden_model import HiddenModel
from pufferkit.beliefs.kernel_class import Kernels, Secret
from pufferkit.beliefs.regime_estimation import KnownSlow
from pufferkit.checks import Floats


def of_regimes(
    name: str,
    model: HiddenModel,
    rest: KnownSlow | None,
    transients: bool,
    contamination: float,
    secret: Secret,
) -> Kernels:
    """Kernels of a model whose entries are independent within a regime.

    With ``rest`` those of the regimes that are not known, in equilibrium or with transients.
    """
    shown = model if rest is None else rest.model
    after, before = (rest.after_return, rest.before_departure) if rest and transients else ((), ())
    steps = shown.steps
    return Kernels(
        name,
        ((steps.forward, *(step.forward for step in before)),),
        ((steps.backward, *(step.backward for step in after)),),
        (np.asarray((model.emission > 0).any(axis=0) | (contamination > 0)),),
        emission=(shown.emission,),
        posterior=(
            ()
            if contamination
            else ((steps.posterior, *(step.posterior for step in (*after, *before))),)
        ),
        contamination=contamination,
        secret=secret,
    )


def hull_of_parts(parts: Sequence[Kernels], contamination: float, secret: Secret) -> Kernels:
    """Every mixture of the kernels of these parts, of the same hidden states."""
    return Kernels(
        "all models of the hull",
        (tuple(kernel for part in parts for kernel in part.forward[0]),),
        (tuple(kernel for part in parts for kernel in part.backward[0]),),
        (np.logical_or.reduce([part.possible[0] for part in parts]),),
        emission=_distinct([e for part in parts for e in part.emission or ()]),
        posterior=(
            ()
            if not parts[0].posterior
            else (tuple(p for part in parts for p in part.posterior[0]),)
        ),
        contamination=contamination,
        secret=secret,
    )


def _distinct(emissions: list[Floats]) -> tuple[Floats, ...]:
    kept: list[Floats] = []
    for emission in emissions:
        if not any(np.array_equal(emission, other) for other in kept):
            kept.append(emission)
    return tuple(kept)
