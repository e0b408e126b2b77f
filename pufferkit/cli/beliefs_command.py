"""``pufferkit beliefs``: choose, fit, check, show beliefs, and say what they are to hide."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.flags import Text, option, real, refuse_given, whole
from pufferkit.cli.inputs import Form, with_options
from pufferkit.cli.job import JobCommand
from pufferkit.cli.question_options import QuestionOptions, state_of
from pufferkit.errors import printable
from pufferkit.shown import Statement, aligned, in_html

if TYPE_CHECKING:
    from pufferkit import ChainClass, MarkovChain, Series
    from pufferkit.beliefs.base import Beliefs
    from pufferkit.data.table import Table
    from pufferkit.fitting.choosing import Choice

NOTHING_PASSES = 1
"""Exit code if no class covers the people held out."""

_PLAIN_LENGTH = 1000
_SOON = 5e7
_MOST_CONTACTS = 10_000_000
_REGIMES = "2,3,4,6,8,12"

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Beliefs: a JSON file.")]
Regimes = Annotated[
    Text, option("Number of hidden regimes; choose: those to try.", "2,3,4", "--regimes")
]

Kind = Literal["chain", "around", "seasonal", "hull", "order", "regimes", "contacts"]
"""The class that is fitted."""

app = terminal.Commands("Choose, fit, check and show beliefs, and say what they hide.")


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Choose, fit, check and show beliefs, and say what they hide."""
    terminal.help_if_alone(context)


# -- choose -------------------------------------------------------------------------------------


@app.command(cls=JobCommand)
@with_options
def choose(
    files: inputs.Files,
    state: inputs.State,
    question: QuestionOptions,
    form: Form,
    rows: inputs.Rows,
    subject: inputs.Subject = None,
    epsilon: inputs.MaybeEpsilon = None,
    length: inputs.OneLength = None,
    regimes: Regimes = None,
    quick: Annotated[
        bool, option("Three folds, at most 4 regimes, fewer entries.", None, "--quick")
    ] = False,
    seed: inputs.Seed = None,
    out: inputs.Out = None,
    report: inputs.Report = None,
    as_json: inputs.AsJson = False,
    job: inputs.Job = None,
) -> None:
    """Fit classes of beliefs to public people, test them on every fold, recommend what survives.

    Single chain, hourly chain, region, hull of people, hidden regimes: each is listed with its
    promise, the folds it survived, the noise for your query, and what the adversaries of the others
    would learn from that noise. Of the classes that survive every fold the widest promise is
    recommended, never a single fitted model. If none survives, or the data have no power to tell,
    --out is not written and the exit code is 1.

    Noise is compared at --epsilon 1, for a series of --length entries, all observed; without it,
    for the longest public one. With a job the public files are read as it says, and --out is its
    model.
    """
    from pufferkit.fitting.choosing import choose_beliefs  # noqa: PLC0415
    from pufferkit.fitting.people import People  # noqa: PLC0415

    named = inputs.files_of(files)
    outputs.check_outputs([out, report], named)
    counts = _whole_numbers(_REGIMES if regimes is None else regimes)
    table = _people(named, state, rows, form, None, subject)
    terminal.summary(table.report())
    people = People.of(table, None)
    # The series with the longest segment, gaps included: shares are of what was observed.
    longest: list[int] | Series = (
        [length]
        if length is not None
        else max(people.series, key=lambda person: max(person.lengths))
    )
    with terminal.steps() as progress:
        choice = choose_beliefs(
            people,
            question.named(table.states).bind(table.states, longest),
            epsilon=1.0 if epsilon is None else epsilon,
            quick=quick,
            regimes=counts,
            seed=seed or 0,
            progress=progress,
        )
    aside = any(str(path) == outputs.STREAM for path in (out, report))
    terminal.say(choice.to_json() if as_json else choice, err=aside)
    written: dict[Path, bytes] = {}
    if out is not None and choice.best is not None and choice.best.beliefs is not None:
        model = choice.best.beliefs.to_json(indent=2) + "\n"
        written[out] = model.encode()
    if report is not None:
        written[report] = _page(choice, people.series[0], people.day).encode()
    outputs.write_all(written)
    terminal.written(written)
    if choice.best is None:
        raise typer.Exit(NOTHING_PASSES)


def _whole_numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 100 for part in parts):
        raise ValueError(f"--regimes: must be numbers from 1 to 99, like 2,3,4, got {text!r}")
    return [int(part) for part in parts]


def _page(choice: Choice, person: Series, day: int | None) -> str:
    """The choice as one HTML page with embedded figures."""
    from pufferkit import plots  # noqa: PLC0415

    pictures = []
    if day is not None:
        title = "One person's days"
        pictures.append(plots.days_figure(person.codes.tolist(), person.states, day, title))
    if choice.influence is not None:
        pictures.append(choice.plot())
    tests = "".join(
        f"<h3>{escape(row.name)}</h3><ul>"
        + "".join(
            f"<li>without {escape(', '.join(map(str, fold.people)))}: {fold.verdict}; "
            f"{escape(fold.rows.text)}; {escape(fold.influence.text)}</li>"
            for fold in row.folds
        )
        + "</ul>"
        for row in choice.rows
    )
    shown = "".join(plots.image(figure) for figure in pictures)
    said = in_html(choice.statements(), choice.shown_rows())
    return plots.page("Whose beliefs?", f"{said}{shown}<h2>Tests</h2>{tests}")


# -- show, check, fit -----------------------------------------------------------------------------


@app.command()
def show(
    model: ModelFile,
    as_json: inputs.AsJson = False,
) -> None:
    """Print chains with their stationary distribution and mixing, or networks."""
    beliefs = inputs.read_model(model)
    record = {"description": beliefs.description, **beliefs.to_dict()}
    terminal.answer(beliefs, record if as_json else None)


@app.command()
@with_options
def check(
    model: ModelFile,
    form: Form,
    rows: inputs.Rows,
    data: inputs.Data = None,
    state: inputs.MaybeState = None,
    out: inputs.Out = None,
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
        if state is not None:
            raise ValueError("--state: applies to data; give --data")
    beliefs = inputs.read_model(model)
    if beliefs.entries is not None:
        if data is not None:
            raise ValueError("--data: only models of chains can be tested against data")
        _answer(beliefs, inputs.lengths_of(beliefs), None, as_json=as_json)
        return
    series = None
    if data is not None:
        series = inputs.read_data(data, state, rows, form, beliefs.states)
    report = None if series is None else pk.check_model(series, beliefs)
    lengths = [_PLAIN_LENGTH] if series is None else series.lengths
    _answer(beliefs, lengths, report, as_json=as_json)
    if series is not None and report is not None:
        if not as_json:
            count = f"{len(series.lengths)} segment{'s' if len(series.lengths) > 1 else ''}"
            from pufferkit.data.durations import of_seconds  # noqa: PLC0415

            count += "" if series.step is None else f", {of_seconds(series.step)} apart"
            terminal.say(f"data: {len(series):,} entries in {count}, all in states of the model")
            terminal.say(report)
        _warn_if_impossible(beliefs, series)
        terminal.warn(
            "the test results reveal facts about the data without noise; keep them private"
        )
    if report is not None and out is not None:
        outputs.write_all({out: (report.to_json() + "\n").encode()})
        terminal.written([out])


@app.command(cls=JobCommand)
@with_options
def fit(
    files: inputs.Files,
    form: Form,
    rows: inputs.Rows,
    state: inputs.MaybeState = None,
    subject: inputs.Subject = None,
    kind: Annotated[
        Kind,
        option(
            "One chain; the region around it, any start; a chain for each hour; all mixtures of "
            "people and parts of the day; longer memory; hidden regimes; or people who meet, one "
            "contact a row, with --subject A,B their two columns."
        ),
    ] = "chain",
    states: Annotated[Text, option("All states, if some may be missing.", '"A,B,C"')] = None,
    smoothing: Annotated[float | None, real("With chain: added to every count.")] = None,
    confidence: inputs.Confidence = None,
    memory: Annotated[int | None, whole("With order: entries of memory.")] = None,
    period: Annotated[Text, option("Period of the clock: a time, or entries.", "7d")] = None,
    inflate: Annotated[Text, option("With hull: contamination weight, or calibrated.", "X")] = None,
    regimes: Regimes = None,
    odds: Annotated[
        float | None,
        real("With contacts: how much the odds grow if all contacts have the second state."),
    ] = None,
    share: Annotated[
        float | None, real("With contacts: the share of people in the second state.")
    ] = None,
    private: Annotated[
        bool,
        option(
            "Fit to the data to be released anyway; all outputs will record it.",
            None,
            "--theta-from-private-data",
        ),
    ] = False,
    out: inputs.Out = None,
    as_json: inputs.AsJson = False,
    job: inputs.Job = None,
) -> None:
    """Fit beliefs to a public or historical file, never to the series to be released.

    The model records what it was fitted to, and a release of the same series is refused.

    A transition is counted between rows that both have a state and are one step apart. With
    --subject the rows may be in any order. States cut from numbers are named after the levels, so
    that release cuts the same way without further options. With --json the model is printed even
    with --out.
    """
    from pufferkit.data.assemble import states_from_text  # noqa: PLC0415
    from pufferkit.fitting.fit import rarely_left  # noqa: PLC0415

    named = inputs.files_of(files)
    out = outputs.on_disk(out)
    outputs.check_outputs([out], named)
    declared = None if states is None else states_from_text(states.split(","))
    given = _given(
        kind,
        regimes,
        smoothing=smoothing,
        confidence=confidence,
        memory=memory,
        period=period,
        inflate=inflate,
        odds=odds,
        share=share,
    )
    if kind == "contacts":
        if private:
            raise ValueError("--kind contacts: drop --theta-from-private-data")
        _fit_contacts(named, subject, form, declared, given, out, as_json=as_json)
        return
    if state is None:
        raise ValueError("--state: name the column of the file that holds the states")
    people = kind in ("seasonal", "hull", "regimes")
    if people and private:
        raise ValueError(f"--kind {kind}: drop --theta-from-private-data")
    grid = kind in ("chain", "around") and form.given_bins() is not None
    timed = rows.time is not None or form.every is not None
    series: Series | Table
    if people or subject is not None or len(named) > 1 or (grid and timed):
        if kind == "order":
            raise ValueError("--kind order: is fitted to one series; leave out --subject")
        series = _people(named, state, rows, form, declared, subject)
    else:
        series = inputs.read_data(named[0], state, rows, form, declared)
    if not people:
        given["theta_from_private_data"] = private
    model: ChainClass | MarkovChain = pk.fit(series, kind, **given)
    file = ", ".join(str(name) for name in files)
    terminal.warn(
        f"{file} was declared private; the model is a release of it without noise"
        if private
        else f"{file} must be public or historical; a model fitted to the series to be released "
        "would reveal that series"
    )
    _tell(series, rarely_left(series))
    _give(model.to_json(indent=2) + "\n", out, as_json)


def _fit_contacts(
    files: Sequence[Path],
    subject: str | None,
    form: Form,
    states: Sequence[Hashable] | None,
    given: Mapping[str, Any],
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """The network of people who meet, from the rows of two columns."""
    from pufferkit.data.files import first_rows  # noqa: PLC0415

    if "odds" not in given:
        raise ValueError("--odds: say how much contacts tell, for example --odds 10")
    cells = first_rows(list(files), _MOST_CONTACTS, form.text)
    cells.pop("file", None)
    columns = [name.strip() for name in (subject or "").split(",")]
    if len(columns) != 2 or any(name not in cells for name in columns):
        raise ValueError(
            f"--subject: give the two columns of the people who meet, like A,B; there are "
            f"{', '.join(map(printable, cells))}"
        )
    pairs = list(zip(*(cells[name] for name in columns), strict=True))
    options: dict[str, Any] = {**given, **({} if states is None else {"states": states})}
    model = pk.fit(pairs, "contacts", **options)
    terminal.warn(
        f"{', '.join(map(str, files))} must be public: the model names who met; only the states of "
        "the people are hidden"
    )
    terminal.note(f"{len(pairs):,} contacts of {len(model):,} people, {len(model.edges):,} pairs")
    _give(model.to_json(indent=2) + "\n", out, as_json)


def _give(text: str, out: Path | None, as_json: bool) -> None:
    """Write a model to a file, print it, or both."""
    if out is None or as_json:
        terminal.give(text)
    if out is not None:
        outputs.write_all({out: text.encode()})
        terminal.written([out])


_TAKEN_BY = {
    "smoothing": ("chain",),
    "confidence": ("around",),
    "memory": ("order",),
    "period": ("seasonal", "hull"),
    "inflate": ("hull",),
    "regimes": ("regimes",),
    "odds": ("contacts",),
    "share": ("contacts",),
}
"""The kinds of beliefs that take an option of `fit`."""


def _given(kind: Kind, regimes: str | None, **said: Any) -> dict[str, Any]:
    """The arguments of `fit` for a class; raises for one that it does not take."""
    said["regimes"] = regimes
    given = {name: value for name, value in said.items() if value is not None}
    for name in given:
        if kind not in _TAKEN_BY[name]:
            raise ValueError(f"--{name}: needs --kind {' or '.join(_TAKEN_BY[name])}")
    if kind == "regimes":
        counts = [] if regimes is None else _whole_numbers(regimes)
        if len(counts) != 1:
            raise ValueError("--regimes: gives the number of regimes for --kind regimes")
        given["regimes"] = counts[0]
    if given.get("period", "").isdecimal():
        given["period"] = int(given["period"])
    if given.get("inflate", "calibrated") != "calibrated":
        given["inflate"] = terminal.number(given["inflate"])
    return given


def _people(
    files: Sequence[Path],
    state: str,
    rows: inputs.Rows,
    form: Form,
    states: Sequence[Hashable] | None,
    subject: str | None,
) -> Table:
    """The table of public people: by a column, a file each, or a column each."""
    if subject is not None and rows.segment is not None:
        raise ValueError("--segment: here it names the subjects too; give only --subject")
    whose = None if inputs.is_wide(state) else subject or rows.segment or "file"
    return inputs.read_table(files, state, rows, form, states, whose)


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
    record = {"valid": beliefs.description, "lengths": list(lengths), "mechanisms": words}
    said = [
        Statement("head", f"valid: {beliefs.description}"),
        Statement("head", f"mechanisms, over {sum(lengths):,} entries:"),
        Statement("table", "\n".join(aligned(words.items()))),
    ]
    full = {**record, "report": None if report is None else report.to_dict()}
    terminal.answer(said, full if as_json else None)


def _warn_if_impossible(beliefs: Beliefs, series: Series) -> None:
    from pufferkit.fitting.fit import impossible_moves  # noqa: PLC0415

    moves = [impossible_moves(series, member.chain) for member in beliefs.named_members]
    if moves and all(moves):
        (before, after), count = next(iter(moves[0].items()))
        terminal.warn(
            f"the model gives this series probability zero ({before} then {after}: {count} times), "
            "so it promises nothing about it; this line reveals the data, do not share it"
        )


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


# -- hide ----------------------------------------------------------------------------------------


@app.command()
def hide(
    model: ModelFile,
    secret: Annotated[
        list[str],
        option(
            "runs:N or sets:N, any values of N entries in a row or anywhere; "
            "at-least:STATE:N[:TIMES], whether a state occurs in N entries in a row; "
            "throughout:STATE:N, whether all of them have it; pair:STATE:STATE[:TIMES], these "
            "values of an entry alone, at TIMES epsilon. Repeat for each.",
            "KIND:...",
        ),
    ],
    only: Annotated[
        bool, option("Do not also hide the values of single entries.", None, "--only")
    ] = False,
    out: inputs.Out = None,
    as_json: inputs.AsJson = False,
) -> None:
    """The same beliefs with other secrets: values of several entries, events, named pairs.

    Every command accepts the new model; its releases promise to hide exactly these secrets.
    """
    out = outputs.on_disk(out)
    outputs.check_outputs([out], [model])
    beliefs = inputs.read_model(model)
    if beliefs.entries is not None:
        raise ValueError("MODEL: events about several entries in a row need a model of chains")
    secrets: list[pk.Secrets] = []
    pairs: dict[tuple[Hashable, Hashable], float] = {}
    for given in secret:
        kind, *parts = given.split(":")
        if kind not in _SECRETS or len(parts) not in _SECRETS[kind] or not all(parts):
            raise ValueError(f"--secret: {given!r} is not one of {', '.join(_SECRET_FORMS)}")
        if kind in ("runs", "sets"):
            secrets.append(getattr(pk.Secrets, kind)(terminal.integer(parts[0])))
        elif kind == "at-least":
            often = terminal.integer(parts[2]) if len(parts) > 2 else 1
            state = state_of("--secret", parts[0], beliefs.states)
            secrets.append(pk.Secrets.at_least(state, terminal.integer(parts[1]), often))
        elif kind == "throughout":
            state = state_of("--secret", parts[0], beliefs.states)
            secrets.append(pk.Secrets.throughout(state, terminal.integer(parts[1])))
        else:
            both = (
                state_of("--secret", parts[0], beliefs.states),
                state_of("--secret", parts[1], beliefs.states),
            )
            pairs[both] = terminal.number(parts[2]) if len(parts) > 2 else 1.0
    if pairs:
        secrets.append(pk.Secrets.pairs(pairs))
    hiding = cast("ChainClass", beliefs).with_secrets(*secrets, entries=False if only else None)
    terminal.warn(hiding.caveats[-1])
    _give(hiding.to_json(indent=2) + "\n", out, as_json)


_SECRETS = {"runs": (1,), "sets": (1,), "at-least": (2, 3), "throughout": (2,), "pair": (2, 3)}
_SECRET_FORMS = (
    "runs:N",
    "sets:N",
    "at-least:STATE:N[:TIMES]",
    "throughout:STATE:N",
    "pair:STATE:STATE[:TIMES]",
)
