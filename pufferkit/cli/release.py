"""``pufferkit release``: a noisy answer that may leave the house."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import pufferkit as pk
from pufferkit.cli import book as books
from pufferkit.cli import each as tables
from pufferkit.cli import inputs, outputs, terminal

if TYPE_CHECKING:
    from pufferkit import Calibration, Query
    from pufferkit.beliefs.protocol import Beliefs


def release(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The series: CSV or Parquet.")],
    model: inputs.Model,
    epsilon: inputs.Epsilon,
    state: inputs.State,
    query: inputs.Asked = inputs.QueryName.HISTOGRAM,
    time: inputs.Time = None,
    segment: inputs.Segment = None,
    state_value: inputs.StateValue = None,
    values: inputs.Values = None,
    entry: Annotated[
        str | None,
        typer.Option("--entry", metavar="COL", help="For networks: column that names the entry."),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            "--mechanism", metavar="NAME", help="As in the plan. Default: least Pufferfish noise."
        ),
    ] = None,
    proper: Annotated[
        bool, typer.Option("--proper", help="Also the nearest histogram without negative bins.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write JSON here, not to stdout.")
    ] = None,
    plot: inputs.Plot = None,
    show_exact: Annotated[
        bool, typer.Option("--show-exact", help="Draw the exact answer too. Not for sharing.")
    ] = False,
    ledger: Annotated[
        str | None,
        typer.Option("--ledger", metavar="FILE|URL", help="Pay from an account kept here."),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget", parser=terminal.number, help="With --ledger: epsilon for everything."
        ),
    ] = None,
    account: Annotated[
        str | None,
        typer.Option("--account", metavar="NAME", help="With --ledger: which data this is."),
    ] = None,
    label: Annotated[
        str, typer.Option("--label", help="With --ledger: tells equal releases apart.")
    ] = "",
    anchor: books.Anchor = None,
    anchor_key: books.AnchorKey = None,
    ledger_key: books.LedgerKey = None,
    data_meant: books.DataMeant = False,
    each: tables.Each = None,
    window: tables.Window = None,
    independent_after: inputs.IndependentAfter = None,
    every: tables.Every = None,
    cuts: tables.Cuts = None,
    max_gap: tables.MaxGap = None,
) -> None:
    """Answer a query with noise.

    Without a ledger every run draws anew and spends epsilon. With one, the release is paid for
    before it is shown, and asking again gives the same answer at no cost. The ledger is made by its
    first release; what is refused writes nothing.

    A row without a state is an entry that was not observed; with --time, so are the rows that a
    clock would have had. The series goes on behind them, unless --independent-after declares it.

    With --each COL the file is a table of many subjects, --out is a CSV or Parquet file with a row
    for each, every subject has an account of its own, and a run that was stopped goes on when it is
    started again with the same ledger and label. Without --each, --window, --every and --cuts
    read the file as a table of one subject, and --account names its account.
    """
    options = tables.TableOptions(each, window, max_gap, every, cuts, independent_after)
    book = books.Book(ledger, budget, anchor, anchor_key, ledger_key, data_meant)
    if options.given:
        tables.refuse_others(
            options,
            {
                "--segment": segment,
                "--entry": entry,
                "--plot": plot,
                "--state-value": state_value,
                "--values": values,
                "--show-exact": show_exact or None,
            },
        )
        asked = tables.Asked(
            epsilon=epsilon,
            state=state,
            time=time,
            query=query,
            mechanism=known_mechanism(mechanism),
            proper=proper,
            out=out,
            book=book,
            account=account,
            label=label,
        )
        tables.release_table(file, model, options, asked)
        return
    if (ledger is None) != (budget is None) or (ledger is None) != (account is None):
        raise ValueError("--ledger, --budget and --account: go together; give all three or none")
    mechanism = known_mechanism(mechanism)
    if show_exact and plot is None:
        raise ValueError("--show-exact: draws into a picture; name it with --plot")
    outputs.check_outputs([out, plot], [file, model])
    if plot is not None:
        from pufferkit import plots  # noqa: PLC0415

        plots.check_picture(plot)
    beliefs = inputs.read_model(model)
    states = beliefs.states
    series = inputs.read_data(file, state, time, segment, states, entry, beliefs, independent_after)
    question = inputs.make_query(query, states, series, state_value, values)
    if proper and question.total is None:
        raise ValueError(f"--proper: {question.name} is not a histogram")
    if mechanism == "entry_dp":
        terminal.warn("entry_dp does not hide entries that others predict; it is a baseline only")
    if show_exact:
        terminal.warn(f"{plot} shows the exact answer, which has no privacy; do not share it")

    with book.opened() as opened:
        if opened is not None and budget is not None and account is not None:
            session = pk.Session(
                series, beliefs, budget, opened, name=account, data_meant=data_meant
            )
            found = session.release(question, epsilon, mechanism=mechanism or "best", label=label)
            terminal.say(f"{account}: {session.remaining:g} of {budget:g} remain", err=True)
        else:
            found = calibrated(mechanism, beliefs, question, epsilon).release(series)
    found = found.as_histogram() if proper else found
    record = found.to_json() + "\n"
    written = {} if out is None else {out: record.encode()}
    if plot is not None:
        exact = [float(value) for value in question.exact(series)] if show_exact else None
        written[plot] = plots.picture(plots.release_figure(found, exact), plot)
    outputs.write_all(written)
    terminal.say(record.rstrip() if out is None else str(found))
    for path in written:
        terminal.say(f"written: {path}", err=True)


def calibrated(
    mechanism: str | None, beliefs: Beliefs, query: Query, epsilon: float
) -> Calibration:
    """The mechanism of this name, or the one with the least noise that hides entries."""
    from pufferkit.mechanisms.plan import calibrate  # noqa: PLC0415

    with terminal.progress() as told:
        if mechanism is None:
            return pk.plan(beliefs, query, epsilon, told).best
        return calibrate(mechanism, beliefs, query, epsilon, told)


def known_mechanism(mechanism: str | None) -> str | None:
    """A mechanism as the plan spells it; hyphens are welcome."""
    if mechanism is None:
        return None
    from pufferkit.mechanisms.plan import MECHANISMS  # noqa: PLC0415

    name = mechanism.replace("-", "_")
    if name not in MECHANISMS:
        listed = ", ".join(MECHANISMS)
        raise ValueError(f"--mechanism: {mechanism!r} is unknown; known are {listed}")
    return name
