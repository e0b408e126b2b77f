"""``pufferkit model``: look at beliefs, check them, count them from public data."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import pufferkit as pk
from pufferkit.cli import each as tables
from pufferkit.cli import inputs, outputs, terminal

if TYPE_CHECKING:
    from pufferkit import ChainClass, MarkovChain, Series
    from pufferkit.beliefs.chain_class import Member
    from pufferkit.beliefs.protocol import Beliefs
    from pufferkit.data.table import Table

app = typer.Typer(help="Show, check and fit beliefs.", rich_markup_mode=None)

_SHOWN = 4
_PLAIN_LENGTH = 1000
_MOST_STATES = 1000

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Beliefs: a JSON file.")]


class Start(StrEnum):
    """Where a fitted chain starts."""

    STATIONARY = "stationary"
    FIRST = "first"


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Show, check and fit beliefs."""
    terminal.help_if_alone(context)


@app.command()
def show(
    model: ModelFile,
    every: Annotated[bool, typer.Option("--all", help="Show every chain of a class.")] = False,
) -> None:
    """Print chains with their stationary law and speed of mixing, or networks with their laws."""
    beliefs = inputs.read_model(model)
    if not isinstance(beliefs, pk.ChainClass):
        for line in _entries(beliefs):
            typer.echo(line)
        return
    typer.echo(f"{beliefs.to_dict()['kind']}: {beliefs.description}")
    typer.echo(f"states: {', '.join(str(state) for state in beliefs.states)}")
    for caveat in beliefs.caveats:
        typer.echo(f"note: {caveat}")
    region = beliefs.to_dict()
    if region["kind"] == "region":
        for before, low, high in zip(beliefs.states, region["low"], region["high"], strict=True):
            row = zip(beliefs.states, low, high, strict=True)
            cells = ", ".join(f"{after} {a:.4f} to {b:.4f}" for after, a, b in row)
            typer.echo(f"  after {before}: {cells}")
        return
    try:
        members = beliefs.members()
    except pk.NotApplicable:
        bounds = beliefs.mixing_bounds()[0]
        typer.echo(_mixes(bounds.contraction))
        return
    for member in members if every else members[:_SHOWN]:
        typer.echo("")
        for line in _described(member):
            typer.echo(line)
    if not every and len(members) > _SHOWN:
        typer.echo(f"\n{len(members) - _SHOWN} more; --all shows them")


@app.command()
def check(
    model: ModelFile,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="Do these data fit?")
    ] = None,
    state: inputs.MaybeState = None,
    time: inputs.Time = None,
    segment: inputs.Segment = None,
    independent_after: inputs.IndependentAfter = None,
    level: Annotated[
        float, typer.Option("--level", help="A test with a p-value below this fails.")
    ] = 0.01,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the tests here as JSON.")
    ] = None,
) -> None:
    """Say whether beliefs are valid, which mechanisms apply, and whether data fit them.

    With data: is one step of memory enough, does the law stay the same, does the class cover the
    data, and what would a second-order chain cost.
    """
    outputs.check_outputs([out], [model, data])
    if out is not None and data is None:
        raise ValueError("--out: there is nothing to write without --data")
    beliefs = inputs.read_model(model)
    if not isinstance(beliefs, pk.ChainClass):
        if data is not None:
            raise ValueError("--data: tests of a model against data are for chains")
        typer.echo(f"valid: {beliefs.description}")
        _mechanisms(beliefs, inputs.states_of(beliefs)[0], inputs.lengths_of(beliefs))
        return
    series = None
    if data is not None:
        series = inputs.read_data(
            data, state, time, segment, beliefs.states, independent_after=independent_after
        )
    report = None if series is None else pk.check_model(series, beliefs, level=level)
    typer.echo(f"valid: {beliefs.description}")
    lengths = [_PLAIN_LENGTH] if series is None else series.lengths
    _mechanisms(beliefs, beliefs.states[0], lengths)
    if series is not None:
        count = f"{len(series.lengths)} segment{'s' if len(series.lengths) > 1 else ''}"
        typer.echo(f"data: {len(series):,} entries in {count}, all in states of the model")
        typer.echo(str(report))
        _warn_if_impossible(beliefs, series)
        terminal.warn("the tests are facts about the data, without noise; keep them to yourself")
    if report is not None and out is not None:
        outputs.write_all({out: (report.to_json() + "\n").encode()})
        typer.echo(f"written: {out}", err=True)


@app.command()
def fit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Public data: CSV or Parquet.")],
    state: inputs.State,
    time: inputs.Time = None,
    segment: inputs.Segment = None,
    states: Annotated[
        str | None,
        typer.Option("--states", metavar='"A,B,C"', help="All states, if some may be missing."),
    ] = None,
    smoothing: Annotated[
        float, typer.Option("--smoothing", metavar="X", help="Added to every count.")
    ] = 0.0,
    start: Annotated[Start, typer.Option("--start", help="Law of the first entry.")] = (
        Start.STATIONARY
    ),
    around: Annotated[
        float | None,
        typer.Option(
            "--around", metavar="CONFIDENCE", help="All chains in a confidence region, any start."
        ),
    ] = None,
    order: Annotated[
        int, typer.Option("--order", min=1, max=2, help="2: a chain on pairs of states.")
    ] = 1,
    independent_after: inputs.IndependentAfter = None,
    cuts: tables.Cuts = None,
    max_gap: tables.MaxGap = None,
    private: Annotated[
        bool,
        typer.Option(
            "--theta-from-private-data",
            help="Fit to the data to be released all the same; everything will say so.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
) -> None:
    """Count a chain from a public or historical file, never from the series to be released.

    The model remembers what it was counted from, and a release of the same series is refused.

    A move is counted between rows that both have a state and are one step apart. With --cuts the
    rows may be in any order, and --segment names whose row it is; give release the same --cuts.
    """
    from pufferkit.beliefs.estimation import fit as fitted  # noqa: PLC0415
    from pufferkit.beliefs.estimation import order_two, rarely_left  # noqa: PLC0415
    from pufferkit.frames import states_from_text  # noqa: PLC0415

    outputs.check_outputs([out], [file])
    declared = None if states is None else states_from_text(states.split(","))
    series: Series | Table
    if cuts is None and max_gap is None:
        found_series = inputs.read_data(
            file, state, time, segment, declared, independent_after=independent_after
        )
        series = _few_states(state, found_series, states)
    elif order != 1 or start is not Start.STATIONARY:
        raise ValueError("--cuts: only with --order 1 and a stationary start")
    else:
        after = max_gap or independent_after
        series = tables.counted(file, state, time, segment, declared, after, cuts)
    if around is not None and (smoothing != 0 or start is not Start.STATIONARY or order != 1):
        raise ValueError("--around: takes plain counts and any start; drop the other options")
    found: ChainClass | MarkovChain
    if around is not None:
        found = pk.ChainClass.around(series, around, theta_from_private_data=private)
    elif order == 2:
        if start is not Start.STATIONARY:
            raise ValueError("--order 2: only with a stationary start")
        found = order_two(series, smoothing or 0.5, theta_from_private_data=private)
    else:
        found = fitted(series, smoothing, start.value, theta_from_private_data=private)
    if private:
        terminal.warn(f"{file} was said to be private; the model is a release of it without noise")
    else:
        terminal.warn(
            f"{file} must be public or historical; a model counted from the series to be released "
            "would give that series away"
        )
    _tell(series, rarely_left(series))
    text = json.dumps(found.to_dict(), indent=2) + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        outputs.write_all({out: text.encode()})
        typer.echo(f"written: {out}", err=True)


def _mechanisms(beliefs: Beliefs, state: Hashable, lengths: Sequence[int]) -> None:
    """Which mechanisms apply to a count."""
    with terminal.progress() as told:
        plan = pk.plan(beliefs, pk.count(state, lengths), 1.0, told)
    typer.echo(f"mechanisms, over {sum(lengths):,} entries:")
    wide = max(len(row["mechanism"]) for row in plan.rows)
    for row in plan.rows:
        verdict = "applies" if row["applicable"] else f"does not apply: {row['why']}"
        if row["applicable"] and not row["pufferfish"]:
            verdict = "applies, but does not hide entries that others predict"
        typer.echo(f"  {row['mechanism']:<{wide}}  {verdict}")


def _entries(beliefs: Beliefs) -> Iterator[str]:
    """The entries of networks or joint laws: what they depend on, and their law."""
    laws = list(getattr(beliefs, "networks", ()) or getattr(beliefs, "joints", ()))
    yield f"{laws[0].to_dict()['kind']}: {beliefs.description}"
    for number, law in enumerate(laws, 1):
        if len(laws) > 1:
            yield f"\nnumber {number}"
        if isinstance(law, pk.BayesianNetwork):
            for node in law.nodes:
                above = ", ".join(str(parent) for parent in law.parents[node])
                own = zip(law.values[node], law.law(node), strict=True)
                cells = ", ".join(f"{value} {p:.6g}" for value, p in own)
                yield f"  {node}{f' given {above}' if above else ''}: {cells}"
        else:
            for name in law.names:
                each = [(value, law.probability(name, value)) for value in law.values(name)]
                yield f"  {name}: {', '.join(f'{value} {float(p):.6g}' for value, p in each)}"


def _described(member: Member) -> Iterator[str]:
    chain = member.chain
    yield member.name
    yield (
        f"  irreducible: {_yes(chain.is_irreducible)}; period: {chain.period}; "
        f"reversible: {_yes(chain.is_reversible)}"
    )
    if chain.is_irreducible:
        yield f"  eigengap: {chain.eigengap:.6g}; least stationary probability: {chain.pi_min:.6g}"
        yield f"  {_mixes(chain.contraction)}"
    law = _law(chain)
    wide = max(5, *(len(str(state)) for state in chain.states))
    yield f"  {'state':<{wide}}  {'start':>10}  {'stationary':>10}"
    for x, state in enumerate(chain.states):
        begins = "any" if member.any_start else f"{chain.initial[x]:.6f}"
        yield f"  {state!s:<{wide}}  {begins:>10}  {law(x):>10}"


def _law(chain: MarkovChain) -> Callable[[int], str]:
    try:
        stationary = chain.stationary
    except ValueError:
        return lambda _: "not unique"
    return lambda x: f"{stationary[x]:.6f}"


def _mixes(contraction: float) -> str:
    if contraction <= 0:
        return "mixing: at once, entries are independent"
    if contraction >= 1:
        return "mixing: the eigengap says nothing"
    steps = math.log(2) / -math.log(contraction)
    return f"mixing: dependence between entries halves in {steps:.2f} steps or fewer"


def _warn_if_impossible(beliefs: ChainClass, series: Series) -> None:
    from pufferkit.beliefs.estimation import impossible_moves  # noqa: PLC0415

    try:
        members = beliefs.members()
    except pk.NotApplicable:
        return
    found = [impossible_moves(series, member.chain) for member in members]
    if all(found):
        (before, after), count = next(iter(found[0].items()))
        terminal.warn(
            f"the model says this series cannot happen ({before} then {after}: {count} times), so "
            "it promises nothing about it; this line is about the data, keep it to yourself"
        )


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def _few_states(column: str, series: Series, declared: str | None) -> Series:
    """Readings taken for states would make a matrix of many gigabytes, and no model."""
    if declared is None and len(series.states) > _MOST_STATES:
        raise ValueError(
            f"--state: {column} has {len(series.states):,} different values, too many for states; "
            "cut numbers into levels with --cuts 100,760"
        )
    return series


def _tell(counted: Series | Table, rare: Mapping[Hashable, int]) -> None:
    """What was found in a table, and where it says too little."""
    if not isinstance(counted, pk.Series):
        typer.echo(counted.report(), err=True)
    if rare:
        listed = ", ".join(f"{state} ({count})" for state, count in rare.items())
        terminal.warn(f"rarely or never left, so poorly known: {listed}")
