"""What an epsilon means for one release, in the words of the data.

Epsilon is about one entry: one reading of five minutes, not a night, and not what is true of a
person all the time. About w entries in a row the loss is that of `Secrets.runs`, at the same noise.
"""

from __future__ import annotations

from math import inf

from pufferkit.beliefs.chain_class import ChainClass
from pufferkit.beliefs.provenance import words_of_tests
from pufferkit.beliefs.secrets import Secrets
from pufferkit.data.durations import of_seconds
from pufferkit.errors import NotApplicable, NoTheorem
from pufferkit.mechanisms.calibration import Calibration, chains_only
from pufferkit.mechanisms.influence_curve import loss_at
from pufferkit.mechanisms.posterior_odds import one_in, posterior
from pufferkit.rounding import round_up

SPANS = (("an hour", 3600), ("a night of 8 hours", 8 * 3600), ("a week", 7 * 86400))
"""Stretches of time whose loss is told, in seconds."""

_ENTRIES = (10, 100)
"""Stretches in entries, where the time between entries is unknown."""

_PRIOR = 0.1
_VACUOUS = 20.0


def meaning(calibration: Calibration) -> tuple[str, ...]:
    """What the epsilon of a calibration means: one entry, its states, longer stretches.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]], ["rest", "run"], step="5m")
    >>> for line in meaning(pk.influence_curve(chain, pk.count("run", 2016), 1)):
    ...     print(line)
    epsilon 1 is about one entry, 5m: which value it has, not what is true of many together
    if someone gives 'run' a chance of 1 in 10 at some entry, it is at most 1 in 4.3 afterwards, \
and at least 1 in 25; the same for 'rest'
    a longer stretch loses more: an hour up to 4.3, a night of 8 hours up to 29.5 (it is not \
hidden), a week up to 604 (it is not hidden)
    """
    theta, query, epsilon = calibration.beliefs, calibration.query, calibration.epsilon
    if theta is None or theta.names_secrets or theta.entries is not None:
        return ()
    step = theta.step if theta.step is not None else query.step
    each = "one entry" if step is None else f"one entry, {of_seconds(step)}"
    up, down = posterior(_PRIOR, epsilon), 1 - posterior(1 - _PRIOR, epsilon)
    first, *more = sorted((repr(state) for state in theta.states), reverse=True)
    lines = [
        f"epsilon {epsilon:g} is about {each}: which value it has, not what is true of many "
        "together",
        f"if someone gives {first} a chance of {one_in(_PRIOR)} at some entry, it is at most "
        f"{one_in(up)} afterwards, and at least {one_in(down)}"
        + (f"; the same for {', '.join(more)}" if len(more) <= 5 else "; the same for all others"),
    ]
    losses = stretch_losses(calibration)
    if losses:
        told = ", ".join(
            f"{name} up to {loss:.3g}{' (it is not hidden)' if loss > _VACUOUS else ''}"
            for name, loss in losses
        )
        lines.append(f"a longer stretch loses more: {told}")
    tested = words_of_tests(theta.sources)
    return (*lines, *([] if tested is None else [tested]))


def stretch_losses(calibration: Calibration) -> list[tuple[str, float]]:
    """Bounds on the loss of all that some entries in a row say together, at this noise."""
    query = calibration.query
    if calibration.beliefs is None or query.chooses or calibration.scales is not None:
        return []
    try:
        theta = chains_only(calibration.beliefs, "the loss of a stretch")
    except NotApplicable:
        return []
    step = theta.step if theta.step is not None else query.step
    spans = [(f"{count} entries in a row", count) for count in _ENTRIES]
    if step is not None:
        spans = [(name, round(seconds / step)) for name, seconds in SPANS]
    b = round_up(query.lipschitz / calibration.scale)
    losses = []
    for name, count in spans:
        if 1 < count <= query.longest:
            loss = min(_of_run(theta, calibration, count, b), b * query.longest)
            if loss < inf:
                losses.append((name, loss))
    return losses


def _of_run(theta: ChainClass, calibration: Calibration, count: int, b: float) -> float:
    """The loss of any two sequences of values of so many entries in a row."""
    try:
        hidden = theta.with_secrets(Secrets.runs(count), entries=False)
        return loss_at(hidden, calibration.query, b)
    except (NotApplicable, NoTheorem, ValueError):
        return inf
