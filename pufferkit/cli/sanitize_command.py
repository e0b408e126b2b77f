"""``pufferkit sanitize``: randomised response for every entry, and estimates from the answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.inputs import Book, Form, time_of, with_options

if TYPE_CHECKING:
    from pufferkit import MarkovChain, Series


@with_options
def sanitize(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The series: text or Parquet.")],
    model: inputs.Model,
    epsilon: inputs.Epsilon,
    state: inputs.State,
    form: Form,
    book: Book,
    time: inputs.Time = None,
    segment: inputs.Segment = None,
    adversary: inputs.Adversary = None,
    mechanism: inputs.Mechanism = None,
    length: inputs.OneLength = None,
    out: inputs.Out = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Answer every entry of a series by randomised response ([B]).

    All answers may be published; any number of questions can be asked of them later at no cost.
    Every run draws new noise and spends epsilon; with a ledger it is charged before it is drawn,
    by what all answers reveal about each entry. Times and segments of the entries are kept. The
    answers are a .csv or .parquet file; the mechanism and estimates are beside it, as .json. With
    --length the promise holds for series of at most so many entries; without it, for any.
    """
    from pufferkit.data.write import answer_table, check_table  # noqa: PLC0415
    from pufferkit.local import cheapest_noise, estimate  # noqa: PLC0415

    adversary = adversary or "every"
    design = inputs.response_named(mechanism or "randomized_response")
    if design is None:
        listed = ", ".join(inputs.RESPONSES)
        raise ValueError(f"--mechanism: {mechanism!r} answers no entries; these do: {listed}")
    out = _checked(book, form, out)
    alone = str(out) == "-"
    record = None if alone else out.with_suffix(".json")
    outputs.check_outputs([out, record], [file, model])
    if alone and as_json:
        raise ValueError("--json: the answers also go to stdout; write one of the two to a file")
    target = Path("stdout.csv") if alone else out
    check_table(target)
    chain = _one_chain(model)
    series = inputs.read_data(file, state, inputs.Rows(time, segment=segment), form, chain.states)
    with terminal.progress("searching for the least noise"):
        response = cheapest_noise(chain, epsilon, adversary, length, design=design)
    if adversary == "ignorant":
        terminal.warn("an adversary who knows some entries may learn more than epsilon allows")
    times = time_of(time)
    kept = [times] if isinstance(times, str) else list(times or ())
    kept += [] if segment is None else [segment]
    with book.payer() as payer:
        if payer is None:
            answered: Series = response.sanitize(series)
        else:
            answered = response.sanitize(series, account=payer, beliefs=chain)
    try:
        estimated = estimate(answered, response)
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
        "mechanism": response.to_dict(),
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
        terminal.say(str(response), err=alone)
        if estimated is not None:
            terminal.say(str(estimated), err=alone)
    terminal.written(written)


def _checked(book: Book, form: Form, out: Path | None) -> Path:
    """The file for the answers; options that would be ignored are refused."""
    book.check(needs_account=True)
    if out is None:
        raise ValueError("--out: the answers need a file, .csv or .parquet; or - for stdout")
    if book.label:
        raise ValueError("--label: every run draws new answers and is charged; leave it out")
    if form.every is not None or form.repeated_hour == "keep-first":
        raise ValueError(
            "--every and --repeated-hour keep-first: drop rows, and sanitize keeps all"
        )
    return out


def _one_chain(path: Path) -> MarkovChain:
    """The one chain of a model: randomised response is calibrated for a single belief."""
    beliefs = inputs.chains(path)
    members = beliefs.named_members
    if len(members) != 1 or members[0].any_start:
        raise ValueError(
            f"{path}: sanitize needs one Markov chain with a fixed initial distribution, not "
            f"{beliefs.description}; give 'transition' and, unless it starts in its stationary "
            "distribution, 'initial'"
        )
    return members[0].chain
