"""What noise costs and what it hides: plans, pairs of values, audits, accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pufferkit.mechanisms.plan import room
from pufferkit.plots.canvas import (
    BLACK,
    BLUE,
    COLOURS,
    ORANGE,
    SKY,
    WIDE,
    blank,
    dated,
    footnote,
    grid,
    heat,
    legend,
    measure_up,
    panels,
    plain_numbers,
    ranked,
    whole_numbers,
)
from pufferkit.shown import at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pufferkit.account.accounts import Account
    from pufferkit.audit.report import Audit
    from pufferkit.mechanisms.calibration import Calibration
    from pufferkit.mechanisms.explain import PairTable
    from pufferkit.mechanisms.joint_plan import JointPlan
    from pufferkit.mechanisms.markov_quilt import ActiveQuilts
    from pufferkit.mechanisms.quantiles import QuantilePlan
    from pufferkit.mechanisms.shaped import ShapedCalibration

_MOST_NODES = 40


def plan_figure(rows: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """The error of each mechanism as a dot on a logarithmic axis.

    Parameters
    ----------
    rows
        ``Plan.rows``. Mechanisms that do not apply are named below the dots.
    title
        Drawn above.
    """
    dots = [row for row in rows if row["applicable"]]
    others = [row["mechanism"] for row in rows if not row["applicable"]]
    if not dots:
        raise ValueError("rows: no mechanism applies, so there is nothing to draw")
    notes = [at_most(row["half_width_95"]) for row in dots]
    for n, row in enumerate(dots):
        if not row["pufferfish"]:
            notes[n] += ", hides too little"
        elif row.get("tightness") is not None:
            notes[n] += f", room {room(row['tightness'])}"
    figure, axes = blank(WIDE, 2.0 + 0.34 * len(dots), title)
    names, errors = [row["mechanism"] for row in dots], [row["half_width_95"] for row in dots]
    measure = "95% of answers are within this of the truth"
    ranked(axes, names, errors, notes, measure, good=[row["pufferfish"] for row in dots], log=True)
    if others:
        footnote(figure, f"Not applicable here: {', '.join(others)}.")
    return figure


def influence_figure(rows: Sequence[Mapping[str, Any]], point: float, lower: float) -> Figure:
    """Entries that each class budgets, against what the data show.

    Parameters
    ----------
    rows
        With ``name``, ``budget`` and ``covers``.
    point, lower
        The influence measured, and its lower limit.
    """
    figure, axes = blank(WIDE, 1.8 + 0.4 * len(rows), "How many entries one entry gives away")
    budgets, covers = [row["budget"] for row in rows], [row["covers"] for row in rows]
    why = ["too few" if budget < point else "refuted otherwise" for budget in budgets]
    notes = [
        f"{budget:,.3g}" + ("" if fine else f", {reason}")
        for budget, fine, reason in zip(budgets, covers, why, strict=True)
    ]
    measure = "entries budgeted by the noise of each class"
    ranked(axes, [row["name"] for row in rows], budgets, notes, measure, good=covers, log=True)
    axes.set_xlim(min([*budgets, lower or point]) / 2, max([*budgets, point]) * 2)
    if lower > 0:
        axes.axvspan(lower, point, color=SKY, alpha=0.25, linewidth=0)
    axes.axvline(point, color=BLACK, linewidth=1.2)
    shade = "; shade: down to the lower limit" if lower > 0 else ""
    footnote(figure, f"Line: measured on people held out, {point:.3g}{shade}.")
    return figure


def error_figure(
    rows: Sequence[Mapping[str, Any]],
    *,
    target: float | None = None,
    chosen: tuple[float, float] | None = None,
    what: str = "answers",
    title: str = "",
) -> Figure:
    """Error against epsilon for every mechanism, with the target and the chosen point.

    Parameters
    ----------
    rows
        Of `pufferkit.mechanisms.target_errors.error_rows`: mechanism, epsilon, half_width.
    target
        A half-width, drawn as a line.
    chosen
        Epsilon and half-width of the release that is planned.
    what
        What the answers are, for the axis.
    """
    if not rows:
        raise ValueError("rows: no mechanism applies, so there is nothing to draw")
    figure, axes = blank(WIDE, 4.8, title)
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    colours = [colour for colour in COLOURS if colour != ORANGE]  # for what does not hide entries
    for n, name in enumerate(names):
        points = sorted((r["epsilon"], r["half_width"]) for r in rows if r["mechanism"] == name)
        hides = name != "entry_dp"
        axes.loglog(
            *zip(*points, strict=True),
            color=colours[n % len(colours)] if hides else ORANGE,
            linestyle=("-", "--", "-.")[n % 3] if hides else ":",
            marker="o",
            markersize=3,
            label=name if hides else f"{name}: hides too little",
        )
    if target is not None:
        axes.axhline(target, color=BLACK, lw=1.1, ls="--", label=f"target {target:.3g}")
    if chosen is not None:
        axes.plot(*chosen, "*", markersize=14, color=BLACK, label="planned")
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    grid(axes)
    axes.set_xlabel("epsilon (left: more privacy)")
    measure_up(axes, f"95% of {what} are within this")
    legend(figure)
    return figure


def questions_figure(plan: JointPlan) -> Figure:
    """What each of several questions would cost alone, and all of them together.

    ``plan`` comes from `pufferkit.plan`, of several questions.
    """
    rows = plan.table_rows()
    title = f"{len(rows)} questions together cost epsilon {plan.epsilon:.3g}"
    figure, axes = blank(WIDE, 2.0 + 0.4 * len(rows), title)
    costs = [row["epsilon_alone"] for row in rows]
    notes = [f"{row['epsilon_alone']:.3g}, within {row['half_width']:.3g}" for row in rows]
    names = [row["question"] for row in rows]
    ranked(axes, names, costs, notes, "epsilon of each question alone")
    axes.set_xlim(0, 1.1 * max(plan.epsilon, *costs))
    axes.axvline(plan.epsilon, color=BLACK, linestyle="--", linewidth=1.1, label="together")
    legend(figure)
    return figure


def ways_figure(plan: QuantilePlan) -> Figure:
    """The two quantile methods, and their expected rank errors.

    ``plan`` comes from `pufferkit.plan_quantile`.
    """
    rows, epsilon = plan.table_rows(), plan.calibration.epsilon
    title = f"Quantile {plan.share:g} by {plan.way} has the least error at epsilon {epsilon:g}"
    figure, axes = blank(WIDE, 2.6, title)
    errors, taken = [row["expected_error"] for row in rows], [row["taken"] for row in rows]
    notes = [f"{error:.2%}" for error in errors]
    names = [row["way"] for row in rows]
    ranked(axes, names, errors, notes, "expected error, as a share of the entries", good=taken)
    footnote(figure, plan.about)
    return figure


def active_figure(table: ActiveQuilts) -> Figure:
    """The noise that each node alone would need: points over entries, bars of named nodes.

    ``table`` comes from `pufferkit.active_quilts`. Of many named nodes those that need most.
    """
    title = f"How much noise each node needs for a {table.query} at epsilon {table.epsilon:g}"
    measure = "scale of the noise by the active quilt"
    places = [row.node for row in table.rows if isinstance(row.node, int)]
    if len(places) < len(table.rows):
        rows = sorted(table.rows, key=lambda row: -row.scale)[:_MOST_NODES]
        figure, axes = blank(WIDE, 1.7 + 0.3 * len(rows), title)
        scales, names = [row.scale for row in rows], [str(row.node) for row in rows]
        ranked(axes, names, scales, [f"{scale:.3g}" for scale in scales], measure)
        return figure
    figure, axes = blank(WIDE, 3.8, title)
    axes.plot(places, [row.scale for row in table.rows], ".", color=BLUE, markersize=4)
    axes.axhline(table.scale, color=BLACK, linewidth=1.2, linestyle="--")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("node")
    measure_up(axes, measure)
    whole_numbers(axes)
    grid(axes, "y")
    return figure


def pair_figure(table: PairTable) -> Figure:
    """How well each pair of values is hidden, as a heat map with the numbers in it.

    ``table`` comes from `pufferkit.explain`. Dark pairs lose most, up to epsilon.
    """
    names = [str(state) for state in table.states]
    title = f"How well a {table.query} at epsilon {table.epsilon:g} hides each pair of values"
    count = len(names)
    figure, axes = blank(min(12.0, max(WIDE, 1.6 + 0.55 * count)), 2.4 + 0.5 * count, title)
    losses = np.where(np.eye(count, dtype=bool), np.nan, table.losses)
    heat(axes, losses, names, names, most=table.epsilon, numbers=".2g", share=0.7)
    axes.set_xlabel("taken for")
    axes.set_ylabel("value of an entry")
    return figure


def shape_figure(made: ShapedCalibration, equal: Calibration) -> Figure:
    """Which numbers each direction mixes, loud ones above, and the error of each number.

    ``equal`` has the same noise on every number, for comparison.
    """
    rotated, names = made.rotated, list(made.query.labels)
    mix = rotated.mix - rotated.mix.mean(axis=0)
    sizes = np.linalg.norm(mix, axis=0)
    loud = np.array([float(scale) for scale in rotated.scales]) / sizes
    order = np.argsort(-loud)
    title = f"Noise of a {made.query.name} at epsilon {made.epsilon:g}, loud in few directions"
    height = 2.6 + 0.3 * max(len(order), len(names) / 2)
    figure, (left, right) = panels(2, 1.7 * WIDE, height, title, shared=False)
    rows = [f"noise {loud[n]:.3g}" for n in order]
    heat(left, np.abs(mix / sizes).T[order], rows, names, numbers=".1f", share=0.4)
    left.set_xlabel("share of each number in a direction")
    places = np.arange(len(names))
    before = np.full(len(names), equal.expected_l1_error / len(names))
    right.plot(before, places, "o", color=ORANGE, label="equal noise")
    right.plot(rotated.errors, places, "D", color=BLUE, label="shaped noise")
    right.set_yticks(places, names, parse_math=False)
    right.set_xlim(left=0)
    right.set_xlabel("mean error of each number")
    grid(right)
    legend(figure)
    return figure


def audit_figure(audit: Audit) -> Figure:
    """What was promised, and what the audit computed, proved and could have detected, as bars.

    ``audit`` comes from `pufferkit.audit.audit`.
    """
    colours = {"promised": SKY, "proven by attack": ORANGE, "detectable": "white"}
    rows = audit.table_rows()
    title = f"The audit of {audit.mechanism}: {audit.verdict}\n{audit.belief}, entry {audit.entry}"
    figure, axes = blank(WIDE, 2.1 + 0.4 * len(rows), title)
    names, losses = [row["what"] for row in rows], [row["epsilon"] for row in rows]
    shades = [colours.get(name, BLUE) for name in names]
    measure = "epsilon: log of the ratio by which a release\nmay change the odds of a secret"
    ranked(axes, names, losses, [f"{loss:.3g}" for loss in losses], measure, colours=shades)
    axes.axvline(audit.promise, color=BLACK, linewidth=1.2, linestyle="--")
    return figure


def account_figure(account: Account) -> Figure:
    """The epsilon of everything so far, release by release, below the budget."""
    history = account.history
    if not history:
        raise ValueError("account: nothing was released yet, so there is nothing to draw")
    spent = f"{account.spent:.3g} of {account.budget:.3g}"
    figure, axes = blank(WIDE, 3.6, f"{account.name} has spent epsilon {spent}")
    totals = [row["total"] for row in history]
    places = range(1, len(history) + 1)
    axes.plot(places, totals, color=BLUE, drawstyle="steps-post", marker="o", ms=4, label="spent")
    axes.axhline(account.budget, color=BLACK, linestyle="--", linewidth=1.1, label="budget")
    whole_numbers(axes)
    axes.set_xlabel("releases, in their order")
    measure_up(axes, "epsilon of all releases so far")
    axes.set_ylim(bottom=0)
    grid(axes)
    legend(figure)
    return figure


def profile_figure(rows: Sequence[Mapping[str, Any]], times: Sequence[int] | None = None) -> Figure:
    """The loss of each entry, and the event-level epsilon spent on it.

    Parameters
    ----------
    rows
        `Account.profile`.
    times
        The time of each entry in microseconds, if known.
    """
    figure, axes = blank(WIDE, 3.8, "What all releases together say about each entry")
    ends = [row[end] for row in rows for end in ("first", "last")]
    across: Any = ends
    if times is not None:
        across = np.array([times[end - 1] for end in ends], dtype="datetime64[us]")
        dated(axes)
    for name, label, colour, dashes in (
        ("epsilon", "Pufferfish loss of the entry", BLUE, "-"),
        ("event_epsilon", "event-level epsilon spent on it", ORANGE, "--"),
    ):
        heights = [row[name] for row in rows for _ in ("first", "last")]
        axes.plot(across, heights, color=colour, linestyle=dashes, linewidth=2, label=label)
    axes.set_xlabel("entry" if times is None else "time")
    axes.set_ylabel("epsilon")
    axes.set_ylim(bottom=0)
    grid(axes)
    legend(figure)
    return figure
