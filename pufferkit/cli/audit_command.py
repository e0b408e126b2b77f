"""``pufferkit audit``: the promised privacy against the best attack on it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.flags import File, option, whole
from pufferkit.cli.inputs import Form, calibrated, known_mechanism, with_options
from pufferkit.cli.question_options import QuestionOptions

if TYPE_CHECKING:
    from pufferkit.beliefs.base import Beliefs
    from pufferkit.data.table import Table

FAILED = 1
CONFIDENCE = 0.999999
"""Confidence of the loss that is proven, if none is given."""
TRAINED = "trained"
"""The name of the adversary who knows no model."""


@with_options
def audit(
    model: inputs.Model,
    epsilon: inputs.Epsilon,
    question: QuestionOptions,
    form: Form,
    size: inputs.Size,
    mechanism: inputs.Mechanism = None,
    adversary: inputs.Adversary = None,
    public: Annotated[
        File, option("Public people to train on and to attack, for --adversary trained.", "FILE")
    ] = None,
    subject: inputs.Subject = None,
    trials: Annotated[int, whole("Releases drawn for each of two secrets.")] = 20_000,
    confidence: inputs.Confidence = None,
    as_json: inputs.AsJson = False,
    plot: inputs.Plot = None,
    job: inputs.Job = None,
) -> None:
    """Attack a mechanism on simulated data, and compare with its promise; spends nothing.

    The loss of the claimed noise is computed exactly where that is feasible, the noise drawn is
    measured, and an attack tries to distinguish two secrets. The report states which violations the
    audit could have detected.

    --adversary FILE attacks with other beliefs than those of the release, and says what they may
    learn. --adversary trained knows no model: boosting (scikit-learn) learns from releases of half
    of the --public people to name an entry, and attacks the other half.

    Exit code 0: no violation. 1: the promise is broken, the noise is not as claimed, or the
    adversary of --adversary learns more than epsilon.
    """
    confidence = CONFIDENCE if confidence is None else confidence
    local = inputs.response_named(mechanism)
    name = None if local else known_mechanism(mechanism)
    outputs.check_outputs([], [model, size.data, public], plot)
    beliefs = inputs.read_model(model)
    trained = adversary == TRAINED
    other = None if adversary is None or trained else inputs.read_model(Path(adversary))
    if adversary is not None and local:
        raise ValueError("--adversary: is for releases; a response is made for one chain")
    people = _public(public, subject, size, form, beliefs) if trained else None
    if not trained and (public is not None or subject is not None):
        raise ValueError("--public and --subject: are for --adversary trained")
    given = size.of(beliefs, form) if people is None else list(size.length or ())
    lengths = list(given.lengths if isinstance(given, pk.Series) else given)
    from pufferkit.audit import audit as attacked  # noqa: PLC0415
    from pufferkit.audit import trained_attack  # noqa: PLC0415

    boosted = None
    with terminal.progress("attacking"):
        if local:
            response = _response(beliefs, epsilon, local)
            longest = max(lengths)
            result = attacked(response, trials=trials, confidence=confidence, length=longest)
        else:
            states = beliefs.states
            calendar = given.calendar if isinstance(given, pk.Series) else None
            query = question.named(states).bind(states, lengths, calendar)
            noise = calibrated(name, beliefs, query, epsilon)
            result = attacked(noise, other or beliefs, trials=trials, confidence=confidence)
            boosted = None if people is None else trained_attack(noise, people)
    written = outputs.figure(plot, result)
    outputs.write_all(written)
    if as_json:
        known = result.exact is not None and result.exact.complete
        exact = result.exact.loss if known and result.exact is not None else None
        trained_on = {} if boosted is None else {"trained": boosted.to_dict()}
        terminal.answer(result, {**result.to_dict(), "exact_loss": exact, **trained_on})
    else:
        terminal.answer(result, None, *([] if boosted is None else [boosted]))
    terminal.written(written)
    if not (result.passed and (boosted is None or boosted.passed)):
        raise typer.Exit(FAILED)


def _public(
    path: Path | None, subject: str | None, size: inputs.Size, form: Form, beliefs: Beliefs
) -> Table:
    """The public people that a trained attacker learns from and attacks."""
    wide = size.state is not None and inputs.is_wide(size.state)
    if path is None or size.state is None or (subject is None and not wide):
        raise ValueError(
            "--adversary trained: needs public people; give --public FILE, --state, and --subject "
            "or a column for each"
        )
    if size.data is not None or not size.length:
        raise ValueError(
            "--adversary trained: give --length, the entries of a release; its data are windows of "
            "--public"
        )
    whose = None if wide else subject
    table = inputs.read_table([path], size.state, size.rows, form, beliefs.states, whose)
    terminal.summary(table.report())
    return table


def _response(beliefs: Beliefs, epsilon: float, design: str) -> Any:
    """The cheapest response of a kind for the one chain of a model."""
    local = import_module("pufferkit.local")
    members = () if beliefs.entries is not None else beliefs.members()
    if len(members) != 1 or members[0].any_start:
        raise ValueError(
            "--mechanism: a response needs a model with one chain and a fixed initial distribution"
        )
    return local.cheapest_noise(members[0].chain, epsilon, design=design)
