"""The Markov Quilt Mechanism on chains: [Q] Algorithms 3 and 4."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, Literal

from pufferkit.beliefs.base import Beliefs
from pufferkit.beliefs.secrets import Secrets
from pufferkit.data.query import Query, Question
from pufferkit.influence.answers import QuiltBound, QuiltSearch, hardest_quilt
from pufferkit.influence.progress import Progress
from pufferkit.influence.quilts.chains import InfluenceReading
from pufferkit.influence.quilts.gaps import solvers
from pufferkit.influence.quilts.hardest import check_reading
from pufferkit.influence.quilts.mixing import hardest_by_mixing, influences_by_mixing
from pufferkit.mechanisms.calibration import Calibration, chains_only, checked
from pufferkit.mechanisms.evidence import Evidence
from pufferkit.mechanisms.gapped_series import quilts_of_observed, recorded
from pufferkit.rounding import round_up

MixingVariant = Literal["paper", "tight"]


def markov_quilt(
    beliefs: Any,
    query: Query | Question,
    epsilon: float,
    over: Any = None,
    *,
    influence: InfluenceReading = "definition",
    secrets: Secrets | Sequence[Secrets] | None = None,
    progress: Progress | None = None,
    most_work: float = inf,
) -> Calibration:
    """Noise of the Markov Quilt Mechanism, over all quilts of [Q] Lemma 4.6.

    The scale is L times the largest, over chains of the class and nodes i, of the least

        card(nearby nodes) / (epsilon - max-influence of X_i on the quilt)

    over quilts ([Q] Theorem 4.3). In a series with gaps only observed entries count as nearby
    (`pufferkit.influence.quilts.gaps`). No limit on the size of quilts, no grid over chains:
    the optimum is exact for `ChainClass.of`, for `ChainClass.any_start` ([Q] C.4) and for
    `ChainClass.binary`, whose worst chain is at a corner. Over `ChainClass.around` influence is
    bounded from above (`pufferkit.influence.curve.regions`); two states are exact there too.

    Parameters
    ----------
    beliefs
        A `MarkovChain` or a `ChainClass`; or a `BayesianNetwork`, or several with one graph, for
        which [Q] Algorithm 2 searches quilts by d-separation.
    query
        The query; its segments are independent and have the same initial distribution.
    epsilon
        Pufferfish privacy for each entry.
    influence
        ``"definition"``: max-influence over values that can occur, [Q] Definition 4.1.
        ``"formula"``: [Q] (5) as printed, which also counts left endpoints of probability zero; it
        gives the paper's numbers and never less noise.
    secrets
        Other secrets than single entries: quilts around windows
        (`pufferkit.influence.quilts.blocks`).
    progress
        For networks: called with the number of nodes done and their total.
    most_work
        For networks: give up after about so many nanoseconds, with `NotApplicable`.

    Examples
    --------
    >>> from pufferkit import MarkovChain, count, markov_quilt
    >>> theta = MarkovChain([1, 0], [[0.9, 0.1], [0.4, 0.6]])
    >>> noise = markov_quilt(theta, count(1, 100), 1)
    >>> round(noise.scale, 5), noise.evidence.node, noise.evidence.quilt
    (12.93405, 8, (1, 13))
    """
    theta, query, epsilon = checked(beliefs, query, epsilon, over, secrets)
    check_reading(influence)
    search = QuiltSearch(query.longest, epsilon, influence, progress, most_work)
    hardest = hardest_quilt(theta, search)
    observed = None
    if query.pattern is not None:
        observed = quilts_of_observed(
            lambda length: solvers(theta, length, influence), query, epsilon, hardest
        )
    options = {"influence": influence}
    return _calibration("markov_quilt", theta, query, epsilon, hardest, observed, options)


def markov_quilt_approx(
    beliefs: Any,
    query: Query | Question,
    epsilon: float,
    over: Any = None,
    *,
    bound: MixingVariant = "paper",
) -> Calibration:
    """Noise of the Markov Quilt Mechanism when only the speed of mixing is used: [Q] Algorithm 4.

    Cost does not depend on the length of the series nor on the number of states beyond finding
    ``pi_min`` and the eigengap. All three forms of quilts are searched, for every node.

    Parameters
    ----------
    beliefs
        A `MarkovChain` or any `ChainClass` of irreducible, aperiodic chains.
    query, epsilon
        As in `markov_quilt`.
    bound
        ``"paper"``: [Q] Lemma C.1 with the least pi_min and gap over the class.
        ``"tight"``: the operator norm in place of exp(-gap/2), chain by chain, and the exact prior
        for stationary starts. Same guarantee, less noise.

    Raises
    ------
    NotApplicable
        If a chain is periodic or reducible, or the gap is zero.

    Examples
    --------
    >>> from pufferkit import ChainClass, count, markov_quilt_approx
    >>> theta = ChainClass.mixing(states=2, pi_min=0.2, gap=0.75)
    >>> round(markov_quilt_approx(theta, count(1, 100), 1).scale, 5)
    31.70976
    """
    theta = chains_only(beliefs, "markov_quilt_approx")
    _, query, epsilon = checked(theta, query, epsilon, over)
    hardest = hardest_by_mixing(theta, query.longest, epsilon, bound)
    observed = None
    if query.pattern is not None:
        named = [(theta.description, own) for own in influences_by_mixing(theta, bound)[0]]
        observed = quilts_of_observed(lambda _: named, query, epsilon, hardest)
    options = {"bound": bound}
    return _calibration("markov_quilt_approx", theta, query, epsilon, hardest, observed, options)


def _calibration(
    mechanism: str,
    theta: Beliefs,
    query: Query,
    epsilon: float,
    whole: QuiltBound,
    observed: QuiltBound | None,
    options: dict[str, Any],
) -> Calibration:
    """The calibration of the hardest quilt, of the whole span or of the observed entries."""
    hardest = whole if observed is None else observed
    quilts = hardest.quilts
    verification_data = None if quilts is None else {"quilts": [list(own) for own in quilts]}
    return Calibration(
        mechanism,
        epsilon,
        round_up(query.lipschitz * hardest.score),
        query,
        theta,
        Evidence(
            hardest.belief,
            hardest.node,
            hardest.length,
            hardest.quilt,
            hardest.influence,
            notes=hardest.notes,
            bound="quilts",
            variant=hardest.variant,
            counted=None if observed is None else "observed",
        ),
        verification_data=verification_data if observed is None else recorded(query),
        options=options,
    )
