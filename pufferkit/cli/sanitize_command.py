"""``pufferkit sanitize``: randomised response for every entry, and estimates from the answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.flags import File, Text, option, whole
from pufferkit.cli.format_options import Form, time_of
from pufferkit.cli.options import Book, with_options

if TYPE_CHECKING:
    from pufferkit import MarkovChain, Series


@with_options
def sanitize(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The series: text or Parquet.")],
    model: inputs.Model,
    epsilon: inputs.Epsilon,
    state: inputs.State,
    out: Annotated[Path, option("Write answers here: .csv or .parquet.", "FILE")],
    form: Form,
    book: Book,
    account: Annotated[Text, option("With --ledger: account of these data.", "NAME")] = None,
    time: inputs.Time = None,
    segment: inputs.Segment = None,
    adversary: Annotated[
        str, option("every: may know any other entries; ignorant: knows no entry.")
    ] = "every",
    design: Annotated[
        str,
        option(
            "independent: a coin for each entry; optimised: fewest wrong answers for three or more "
            "states; correlated: flips in runs, two states."
        ),
    ] = "independent",
    length: Annotated[int | None, whole("Longest series covered. Default: any length.")] = None,
    record: Annotated[File, option("Write mechanism and estimates as JSON.", "FILE")] = None,
    as_json: Annotated[
        bool, option("Print mechanism and estimates as JSON.", None, "--json")
    ] = False,
) -> None:
    """Answer every entry of a series by randomised response ([B]).

    All answers may be published; any number of questions can be asked of them later at no cost.
    Every run draws new noise and spends epsilon; with a ledger it is charged before it is drawn,
    by what all answers reveal about each entry. Times and segments of the entries are kept.
    """
    from pufferkit.data.write import answer_table, check_table  # noqa: PLC0415
    from pufferkit.local import cheapest_noise, estimate  # noqa: PLC0415

    book.check(account, needs_account=True)
    if book.label:
        raise ValueError("--label: every run draws new answers and is charged; leave it out")
    outputs.check_outputs([out, record], [file, model])
    alone = str(out) == "-"
    if alone and as_json:
        raise ValueError("--json: the answers also go to stdout; write one of the two to a file")
    target = Path("stdout.csv") if alone else out
    check_table(target)
    chain = _one_chain(model)
    if form.every is not None or form.repeated_hour == "keep-first":
        raise ValueError(
            "--every and --repeated-hour keep-first: drop rows, and sanitize keeps all"
        )
    series = inputs.read_data(file, state, inputs.Rows(time, segment), form, chain.states)
    with terminal.working("searching for the least noise"):
        mechanism = cheapest_noise(chain, epsilon, adversary, length, design=design)
    if adversary == "ignorant":
        terminal.warn("an adversary who knows some entries may learn more than epsilon allows")
    times = time_of(time)
    kept = [times] if isinstance(times, str) else list(times or ())
    kept += [] if segment is None else [segment]
    with book.opened() as ledger:
        if ledger is not None and book.budget is not None and account is not None:
            payer = pk.Account(ledger, account, book.budget, data_meant=book.data_meant)
            answered: Series = mechanism.sanitize(series, account=payer, beliefs=chain)
            terminal.remaining(account, payer.remaining, book.budget)
        else:
            answered = mechanism.sanitize(series)
    try:
        estimated = estimate(answered, mechanism)
    except ValueError:  # the answers carry no information
        estimated = None
    written = {
        out: answer_table(
            file,
            target,
            state,
            kept,
            [a for a in answered.labels if a is not None],
            form.text,
            numeric=form.bins(file, state, chain.states) is not None,
        )
    }
    data = {
        "mechanism": mechanism.to_dict(),
        "estimates": None if estimated is None else estimated.to_dict(),
    }
    if record is not None:
        written[record] = (json.dumps(data, indent=2) + "\n").encode()
    if alone:
        terminal.give(written.pop(out).decode())
    outputs.write_all(written)
    if as_json:
        terminal.as_json(data)
    else:
        terminal.say(str(mechanism), err=alone)
        if estimated is not None:
            terminal.say(str(estimated), err=alone)
    terminal.written(written)


def _one_chain(path: Path) -> MarkovChain:
    """The one chain of a model: randomised response is calibrated for a single belief."""
    beliefs = inputs.chains(path)
    try:
        members = beliefs.members()
    except pk.NotApplicable:
        members = ()
    if len(members) != 1 or members[0].any_start:
        raise ValueError(
            f"{path}: sanitize needs one Markov chain with a fixed initial distribution, not "
            f"{beliefs.description}; give 'transition' and, unless it starts in its stationary "
            "distribution, 'initial'"
        )
    return members[0].chain
