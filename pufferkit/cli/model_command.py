"""``pufferkit model``: show beliefs, check them, fit them to public data."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.flags import File, Text, option, real, refuse_given, whole
from pufferkit.cli.format_options import Form, duration, time_of
from pufferkit.cli.options import MaxGap, with_options
from pufferkit.errors import printable
from pufferkit.shown import Matrix, aligned

if TYPE_CHECKING:
    from pufferkit import ChainClass, MarkovChain, Series
    from pufferkit.beliefs.base import Beliefs
    from pufferkit.beliefs.chain_class import Member
    from pufferkit.data.table import Table

app = typer.Typer(help="Show, check and fit beliefs.", rich_markup_mode=None)

_SHOWN = 4
_PLAIN_LENGTH = 1000
_SOON = 5e7
_LEVEL = 0.01
_MOST_STATES = 1000

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Beliefs: a JSON file.")]


Start = Literal["stationary", "first"]
"""Initial distribution of a fitted chain."""

Kind = Literal["chain", "seasonal", "hull", "regimes"]
"""The class fitted to the people of a table."""


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Show, check and fit beliefs."""
    terminal.help_if_alone(context)


@app.command()
def show(
    model: ModelFile,
    every: Annotated[bool, option("Show every chain of a class.", None, "--all")] = False,
    as_json: inputs.AsJson = False,
) -> None:
    """Print chains with their stationary distribution and mixing, or networks."""
    beliefs = inputs.read_model(model)
    if as_json:
        terminal.as_json({"description": beliefs.description, **beliefs.to_dict()})
        return
    if beliefs.entries is not None:
        for line in _entries(beliefs):
            terminal.say(line)
        return
    terminal.say(f"{beliefs.to_dict()['kind']}: {beliefs.description}")
    terminal.say(f"states: {', '.join(printable(state) for state in beliefs.states)}")
    for caveat in beliefs.caveats:
        terminal.say(f"note: {caveat}")
    region = beliefs.to_dict()
    if region["kind"] == "region":
        for before, low, high in zip(beliefs.states, region["low"], region["high"], strict=True):
            row = zip(beliefs.states, low, high, strict=True)
            cells = ", ".join(f"{printable(after)} {a:.4f} to {b:.4f}" for after, a, b in row)
            terminal.say(f"  after {printable(before)}: {cells}")
        return
    try:
        described = [partial(_described, member) for member in beliefs.members()]
    except pk.NotApplicable:
        with suppress(pk.NotApplicable):
            terminal.say(_mixes(beliefs.mixing_bounds()[0].contraction))
            return
        described = [partial(_cells, matrix) for matrix in beliefs.matrices_shown()]
    for lines in described if every else described[:_SHOWN]:
        terminal.say("")
        for line in lines():
            terminal.say(line)
    if not every and len(described) > _SHOWN:
        terminal.say(f"\n{len(described) - _SHOWN} more; --all shows them")


@app.command()
@with_options
def check(
    model: ModelFile,
    form: Form,
    rows: inputs.Rows,
    data: Annotated[File, option("Test the model against these data.", "FILE")] = None,
    state: inputs.MaybeState = None,
    level: Annotated[float, real("A test with a p-value below this fails.")] = _LEVEL,
    out: Annotated[File, option("Write the tests here as JSON.", "FILE")] = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Check whether beliefs are valid, which mechanisms apply, and whether data fit them.

    With data, test whether one step of memory is enough, whether the distribution is constant over
    time and whether the class covers the data, and compute what a second-order chain would cost.
    """
    outputs.check_outputs([out], [model, data])
    if out is not None and data is None:
        raise ValueError("--out: there is nothing to write without --data")
    if data is None:
        refuse_given([rows, form], "applies to data; give --data")
        if state is not None or level != _LEVEL:
            unused = "--level" if state is None else "--state"
            raise ValueError(f"{unused}: applies to data; give --data")
    beliefs = inputs.read_model(model)
    if beliefs.entries is not None:
        if data is not None:
            raise ValueError("--data: only models of chains can be tested against data")
        _answer(beliefs, inputs.lengths_of(beliefs), None, as_json=as_json)
        return
    series = None
    if data is not None:
        series = inputs.read_data(data, state, rows, form, beliefs.states)
    report = None if series is None else pk.check_model(series, beliefs, level=level)
    lengths = [_PLAIN_LENGTH] if series is None else series.lengths
    _answer(beliefs, lengths, report, as_json=as_json)
    if series is not None:
        if not as_json:
            count = f"{len(series.lengths)} segment{'s' if len(series.lengths) > 1 else ''}"
            from pufferkit.data.durations import of_seconds  # noqa: PLC0415

            count += "" if series.step is None else f", {of_seconds(series.step)} apart"
            terminal.say(f"data: {len(series):,} entries in {count}, all in states of the model")
            terminal.say(str(report))
        _warn_if_impossible(beliefs, series)
        terminal.warn(
            "the test results reveal facts about the data without noise; keep them private"
        )
    if report is not None and out is not None:
        outputs.write_all({out: (report.to_json() + "\n").encode()})
        terminal.written([out])


@app.command()
@with_options
def fit(
    files: inputs.PublicFiles,
    state: inputs.State,
    form: Form,
    rows: inputs.Rows,
    states: Annotated[Text, option("All states, if some may be missing.", '"A,B,C"')] = None,
    smoothing: Annotated[float, real("Added to every count.")] = 0.0,
    start: Annotated[Start, option("Distribution of the first entry.")] = "stationary",
    around: Annotated[
        float | None, real("Confidence region of all plausible chains, any start.", "CONFIDENCE")
    ] = None,
    order: Annotated[int, whole("Order of the chain: entries of memory.")] = 1,
    kind: Annotated[
        Kind,
        option(
            "One chain; one for each hour; all mixtures of people and parts of the day; "
            "hidden regimes. --segment names the subject of each row.",
            None,
            "--class",
        ),
    ] = "chain",
    period: Annotated[Text, option("Period of the clock: a time, or entries.", "7d")] = None,
    inflate: Annotated[Text, option("With hull: contamination weight, or calibrated.", "X")] = None,
    regimes: Annotated[int | None, whole("With regimes: their number.")] = None,
    max_gap: MaxGap = None,
    private: Annotated[
        bool,
        option(
            "Fit to the data to be released anyway; all outputs will record it.",
            None,
            "--theta-from-private-data",
        ),
    ] = False,
    out: Annotated[File, option("Write here instead of stdout.", "FILE")] = None,
    as_json: Annotated[bool, option("Print the JSON even with --out.", None, "--json")] = False,
) -> None:
    """Fit beliefs to a public or historical file, never to the series to be released.

    The model records what it was fitted to, and a release of the same series is refused.

    A transition is counted between rows that both have a state and are one step apart. With --cuts
    and --time the rows may be in any order, and --segment names the subject of each row. The states
    are named after the levels, so that release cuts the same way without further options.
    """
    from pufferkit.data.assemble import states_from_text  # noqa: PLC0415
    from pufferkit.fitting.fit import rarely_left  # noqa: PLC0415

    named = inputs.files_of(files)
    out = None if str(out) == "-" else out
    outputs.check_outputs([out], named)
    declared = None if states is None else states_from_text(states.split(","))
    plain = order == 1 and start == "stationary"
    of_people = _of_people(kind, period, inflate, regimes)
    if (of_people is not None or around is not None) and (not plain or smoothing != 0):
        raise ValueError("--class and --around: do not combine with --order, --start, --smoothing")
    if of_people is not None and (around is not None or private):
        raise ValueError(f"--class {kind}: drop --around and --theta-from-private-data")
    if order != 1 and (start != "stationary" or smoothing != 0):
        raise ValueError("--order: needs --start stationary, without --smoothing")
    timed = rows.time is not None or form.every is not None
    grid = plain and timed and (form.cuts_numbers or max_gap is not None)
    if max_gap is not None and rows.independent_after is not None:
        raise ValueError("--max-gap: is the old name of --independent-after; give only one")
    rows = replace(rows, independent_after=max_gap or rows.independent_after)
    series: Series | Table
    if of_people is not None or len(named) > 1 or grid:
        if not plain:
            raise ValueError("--order and --start: with several files, only 1 and stationary")
        series = counted_table(named, state, rows, declared, form)
    else:
        read = inputs.read_data(named[0], state, rows, form, declared)
        series = _few_states(state, read, states)
    file = ", ".join(str(name) for name in files)
    model: ChainClass | MarkovChain
    if around is not None:
        model = pk.fit(series, "around", confidence=around, theta_from_private_data=private)
    elif order != 1:
        model = pk.fit(series, "order", memory=order, theta_from_private_data=private)
    elif of_people is not None:
        model = of_people(cast("Table", series))
    else:
        model = pk.fit(series, smoothing=smoothing, start=start, theta_from_private_data=private)
    terminal.warn(
        f"{file} was declared private; the model is a release of it without noise"
        if private
        else f"{file} must be public or historical; a model fitted to the series to be released "
        "would reveal that series"
    )
    _tell(series, rarely_left(series))
    give(model.to_json(indent=2) + "\n", out, as_json)


def give(text: str, out: Path | None, as_json: bool) -> None:
    """Write a model to a file, print it, or both."""
    if out is None or as_json:
        terminal.give(text)
    if out is not None:
        outputs.write_all({out: text.encode()})
        terminal.written([out])


def _of_people(
    kind: Kind, period: str | None, inflate: str | None, regimes: int | None
) -> Callable[[Table], ChainClass] | None:
    """How the requested class is fitted to a table; ``None`` for one chain."""
    if period is not None and kind not in ("seasonal", "hull"):
        raise ValueError("--period: needs --class seasonal or hull")
    if inflate is not None and kind != "hull":
        raise ValueError("--inflate: needs --class hull")
    if (regimes is not None) != (kind == "regimes"):
        raise ValueError("--regimes: gives the number of regimes for --class regimes")
    clock = int(period) if period is not None and period.isdecimal() else period
    weight = inflate if inflate == "calibrated" else terminal.number(inflate or "0")
    ways: dict[Kind, Callable[[Table], ChainClass]] = {
        "seasonal": lambda table: pk.fit(table, "seasonal", period=clock),
        "hull": lambda table: pk.fit(table, "hull", inflate=weight, period=clock),
        "regimes": lambda table: pk.fit(table, "regimes", regimes=regimes),
    }
    return ways.get(kind)


def counted_table(
    files: Sequence[Path],
    state: str,
    rows: inputs.Rows,
    states: Sequence[Hashable] | None,
    form: Form,
) -> Table:
    """The table in one or several files, a segment for each subject.

    Bins get descriptive labels unless labels are given.
    """
    from pufferkit.data.files import check_parquet  # noqa: PLC0415

    for file in files:
        check_parquet(file)
    source = files[0] if len(files) == 1 else list(files)
    table: Any = pk.read(
        source,
        subject=rows.segment or "file",
        time=time_of(rows.time),
        state=state,
        states=states,
        bins=form.bins(source, state, None),
        independent_after=duration(rows.independent_after),
        every=duration(form.every),
        start=form.begins,
        text=form.text,
        **form.clock,
    )
    return cast("Table", table)


def _mechanisms(beliefs: Beliefs, lengths: Sequence[int]) -> dict[str, str]:
    """Which mechanisms apply to a count, as text; slow ones are not tried."""
    with terminal.progress() as progress:
        question = pk.count(beliefs.states[0], lengths)
        plan = pk.plan(beliefs, question, 1.0, progress=progress, most_work=_SOON)
    words = {}
    for row in plan.rows:
        verdict = "applies"
        if not row["applicable"]:
            verdict = "applies, but is slow" if row["slow"] else f"does not apply: {row['why']}"
        elif not row["pufferfish"]:
            verdict = "applies, but does not hide entries that others predict"
        words[row["mechanism"]] = verdict
    return words


def _answer(beliefs: Beliefs, lengths: Sequence[int], report: Any, *, as_json: bool) -> None:
    """A description of a model and the mechanisms that apply; as JSON also the tests on data."""
    words = _mechanisms(beliefs, lengths)
    if as_json:
        record = {"valid": beliefs.description, "lengths": list(lengths), "mechanisms": words}
        terminal.as_json({**record, "report": None if report is None else report.to_dict()})
        return
    terminal.say(f"valid: {beliefs.description}")
    terminal.say(f"mechanisms, over {sum(lengths):,} entries:")
    for line in aligned(words.items()):
        terminal.say(line)


def _entries(beliefs: Beliefs) -> Iterator[str]:
    """The entries of networks or joint tables: parents and distributions."""
    distributions = list(getattr(beliefs, "listed", ()))
    yield f"{distributions[0].to_dict()['kind']}: {beliefs.description}"
    for number, distribution in enumerate(distributions, 1):
        if len(distributions) > 1:
            yield f"\nnumber {number}"
        if isinstance(distribution, pk.MarkovRandomField):
            yield from _field(distribution)
        elif isinstance(distribution, pk.BayesianNetwork):
            for node in distribution.nodes:
                above = ", ".join(printable(parent) for parent in distribution.parents[node])
                own = zip(distribution.values[node], distribution.distribution(node), strict=True)
                cells = ", ".join(f"{printable(value)} {p:.6g}" for value, p in own)
                yield f"  {printable(node)}{f' given {above}' if above else ''}: {cells}"
        else:
            for name in distribution.names:
                each = [
                    (value, distribution.probability(name, value))
                    for value in distribution.values(name)
                ]
                cells = ", ".join(f"{printable(value)} {float(p):.6g}" for value, p in each)
                yield f"  {printable(name)}: {cells}"


def _field(field: pk.MarkovRandomField) -> Iterator[str]:
    """The parts of a field, and the distribution of every node where it can be computed."""
    sizes = sorted((len(part) for part in field.components), reverse=True)
    yield f"  {len(sizes):,} independent parts, the largest of {sizes[0]:,} nodes"
    try:
        yield f"  exact distributions take tables of {field.width} nodes at once"
        for node in field.nodes:
            own = zip(field.values[node], field.distribution(node), strict=True)
            cells = ", ".join(f"{printable(value)} {p:.6g}" for value, p in own)
            yield f"  {printable(node)}: {cells}"
    except pk.NotApplicable as reason:
        yield f"  {reason}"


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
    distribution = _distribution(chain)
    names = [printable(state) for state in chain.states]
    wide = max(5, *(len(name) for name in names))
    yield f"  {'state':<{wide}}  {'start':>10}  {'stationary':>10}"
    for x, name in enumerate(names):
        begins = "any" if member.any_start else f"{chain.initial[x]:.6f}"
        yield f"  {name:<{wide}}  {begins:>10}  {distribution(x):>10}"


def _cells(matrix: Matrix) -> Iterator[str]:
    yield matrix.name
    names = [printable(name) for name in (matrix.down, *matrix.rows)]
    columns = [printable(name) for name in matrix.columns]
    wide, each = max(map(len, names)), max(8, *map(len, columns))
    yield f"  {names[0]:<{wide}}" + "".join(f"  {name:>{each}}" for name in columns)
    for name, row in zip(names[1:], matrix.cells, strict=True):
        yield f"  {name:<{wide}}" + "".join(f"  {p:>{each}.6f}" for p in row)


def _distribution(chain: MarkovChain) -> Callable[[int], str]:
    try:
        stationary = chain.stationary
    except ValueError:
        return lambda _: "not unique"
    return lambda x: f"{stationary[x]:.6f}"


def _mixes(contraction: float) -> str:
    if contraction <= 0:
        return "mixing: immediate, entries are independent"
    if contraction >= 1:
        return "mixing: the eigengap gives no bound"
    steps = math.log(2) / -math.log(contraction)
    return f"mixing: dependence between entries halves within {steps:.2f} steps"


def _warn_if_impossible(beliefs: Beliefs, series: Series) -> None:
    from pufferkit.fitting.fit import impossible_moves  # noqa: PLC0415

    try:
        members = beliefs.members()
    except pk.NotApplicable:
        return
    moves = [impossible_moves(series, member.chain) for member in members]
    if all(moves):
        (before, after), count = next(iter(moves[0].items()))
        terminal.warn(
            f"the model gives this series probability zero ({before} then {after}: {count} times), "
            "so it promises nothing about it; this line reveals the data, do not share it"
        )


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def _few_states(column: str, series: Series, declared: str | None) -> Series:
    """Refuse raw readings as states: the matrix would be enormous and useless."""
    if declared is None and len(series.states) > _MOST_STATES:
        raise ValueError(
            f"--state: {column} has {len(series.states):,} distinct values, too many for states; "
            "cut numbers into levels with --cuts 100,760"
        )
    return series


def _tell(counted: Series | Table, rare: Mapping[Hashable, int]) -> None:
    """Report the counts of a table, and the states with too few of them."""
    from pufferkit.data.series import first_few  # noqa: PLC0415

    if not isinstance(counted, pk.Series):
        terminal.summary(counted.report())
    if rare:
        listed = first_few(f"{state} ({count})" for state, count in rare.items())
        measured = len(rare) > 1 and all(re.fullmatch(r"[-\d.]+", str(state)) for state in rare)
        cut = "; if these are measurements, cut them into levels with --cuts 100,760"
        terminal.warn(
            f"states that are rarely or never left, and so poorly estimated: {listed}"
            + (cut if measured else "")
        )
