"""Whether a release is useful, as text and figures of commands."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pufferkit as pk
from pufferkit.cli import terminal
from pufferkit.shown import Statement

if TYPE_CHECKING:
    from pufferkit import Calibration, Plan, Query, Target
    from pufferkit.beliefs.base import Beliefs
    from pufferkit.mechanisms.target_errors import Remedy

_EPSILONS = 9
_DRAWS = 20


def ways(beliefs: Beliefs, plan: Plan, target: Target | None) -> list[Remedy]:
    """Remedies where the plan misses the target, or where noise drowns the answer."""
    from pufferkit.mechanisms.target_errors import worth_having  # noqa: PLC0415

    wanted = target
    if wanted is None and plan.useful.drowned:
        wanted = worth_having()
    if wanted is None or wanted.is_met(plan.best, beliefs):
        return []
    rows = (row.calibration for row in plan.entries if row.mechanism == "influence_curve")
    with terminal.progress("searching for remedies"):
        return pk.remedies(beliefs, plan.query, plan.epsilon, wanted, present=next(rows))


def statements(
    beliefs: Beliefs, plan: Plan, target: Target | None, remedies: Sequence[Remedy]
) -> list[Statement]:
    """The target and the remedies."""
    missed = target is not None and not target.is_met(plan.best, beliefs)
    said = [] if target is None else [f"target: {target}: {'NOT ' if missed else ''}reached"]
    if remedies:
        said += ["any one of these would reach it:", *(f"- {way}" for way in remedies)]
    elif missed or plan.useful.drowned:
        said.append(
            "no remedy that was tried is enough (more epsilon, more data, coarser questions)"
        )
    return [Statement("remark", line) for line in said]


def soon(mechanism: str | None, beliefs: Beliefs, query: Query, epsilon: float) -> Calibration:
    """The calibration of a mechanism, or the least noise among the quick ones."""
    from pufferkit.mechanisms.plan import calibrate  # noqa: PLC0415
    from pufferkit.mechanisms.target_errors import least_noise  # noqa: PLC0415

    if mechanism is None:
        return least_noise(beliefs, query, epsilon)
    return calibrate(mechanism, beliefs, query, epsilon)


def _refusal(warning: str, calibration: Calibration, beliefs: Beliefs) -> str:
    """Why nothing was released, with remedies."""
    from pufferkit.mechanisms.target_errors import least_noise, worth_having  # noqa: PLC0415

    query, epsilon = calibration.query, calibration.epsilon
    least = least_noise(beliefs, query, epsilon)
    if worth_having().is_met(least, beliefs):
        would = f"{least.mechanism} instead of {calibration.mechanism}"
    else:
        remedies = pk.remedies(beliefs, query, epsilon, worth_having(), present=least)
        would = "; ".join(way.text for way in remedies) or "none was found"
    return (
        f"{warning}; nothing was released. Remedies: {would}. To release it anyway, give --anyway"
    )


@contextmanager
def guarded(beliefs: Beliefs, anyway: bool) -> Iterator[None]:
    """Refuse what the package warns of as drowned, before it charges; with ``anyway``, say it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("ignore", UserWarning)  # a large epsilon is questioned by `question`
        warnings.simplefilter("always" if anyway else "error", pk.DrownedAnswer)
        try:
            yield
        except pk.DrownedAnswer as drowned:
            text = str(drowned).partition("; anyway=")[0]
            raise ValueError(_refusal(text, drowned.calibration, beliefs)) from None
    for warning in said:
        terminal.warn(str(warning.message).partition("; anyway=")[0])


def question(epsilon: float) -> None:
    """Ask for confirmation of an epsilon that promises very little."""
    from pufferkit.mechanisms.usefulness import questioned  # noqa: PLC0415

    asked = questioned(epsilon)
    if asked is not None:
        terminal.warn(asked)


def error_picture(beliefs: Beliefs, plan: Plan, target: Target | None, path: Path) -> bytes:
    """Error against epsilon, from a tenth to ten times the planned one."""
    from pufferkit import plots  # noqa: PLC0415
    from pufferkit.mechanisms.target_errors import error_rows  # noqa: PLC0415

    half = (_EPSILONS - 1) / 2
    epsilons = [plan.epsilon * 10 ** ((n - half) / half) for n in range(_EPSILONS)]
    with terminal.progress("trying other epsilons"):
        rows = error_rows(beliefs, plan.query, epsilons)
    figure = plots.error_figure(
        rows,
        target=None if target is None else target.half_width(plan.query, beliefs),
        chosen=(plan.epsilon, plan.useful.half_width),
        what=plan.useful.what,
        title=plan.caption(),
    )
    return plots.picture(figure, path)


def simulation_picture(beliefs: Beliefs, plan: Plan, path: Path) -> bytes:
    """Releases of a series simulated from the first chain of the model."""
    from pufferkit import plots  # noqa: PLC0415

    try:
        chain = beliefs.members()[0].chain
    except (pk.NotApplicable, AttributeError):
        raise ValueError("--figure simulated: needs a model with a chain") from None
    calibration: Any = pk.plan(beliefs, _whole(plan), plan.epsilon).best
    pieces = [
        [chain.states[code] for code in chain.sample(n, seed=number)]
        for number, n in enumerate(plan.query.lengths)
    ]
    series = pk.Series.of(pieces, chain.states)
    exact = [float(value) for value in calibration.query.exact(series)]
    drawn = [calibration.release(series, anyway=True).value for _ in range(_DRAWS)]
    figure = plots.simulation_figure(
        exact,
        drawn,
        calibration.query.labels,
        what=plan.useful.what,
        title=f"{_DRAWS} releases of simulated data\n{calibration.mechanism}, "
        f"epsilon {plan.epsilon:g}",
    )
    return plots.picture(figure, path)


def _whole(plan: Plan) -> Any:
    """The same question without gaps, because simulated data have none."""
    from pufferkit.mechanisms.target_errors import over  # noqa: PLC0415

    return plan.query if not plan.query.missing else over(plan.query, plan.query.lengths)
