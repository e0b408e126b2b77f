"""``pufferkit audit``: the promised privacy against the best attack on it."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.flags import File, Text, option, real, whole
from pufferkit.cli.format_options import Form
from pufferkit.cli.options import calibrated, known_mechanism, with_options
from pufferkit.cli.question_options import QuestionOptions

if TYPE_CHECKING:
    from pufferkit.beliefs.base import Beliefs

FAILED = 1
LOCAL = {
    "randomized_response": "independent",
    "matrix_response": "optimised",
    "correlated_response": "correlated",
}
"""Mechanisms of `pufferkit.local`, with their ``design`` in `cheapest_noise`."""


@with_options
def audit(
    model: inputs.Model,
    epsilon: inputs.Epsilon,
    question: QuestionOptions,
    form: Form,
    size: inputs.Size,
    mechanism: Annotated[
        Text,
        option(
            "A name from the plan, or randomized_response, matrix_response, "
            "correlated_response. Default: least Pufferfish noise.",
            "NAME",
        ),
    ] = None,
    trials: Annotated[int, whole("Releases drawn for each of two secrets.")] = 20_000,
    confidence: Annotated[float, real("Confidence of the loss that is proven.")] = 0.999999,
    as_json: Annotated[bool, option("Print JSON.", None, "--json")] = False,
    plot: Annotated[File, option("Plot the promised, computed and proven loss.", "FILE")] = None,
) -> None:
    """Attack a mechanism on simulated data, and compare with its promise; spends nothing.

    The loss of the claimed noise is computed exactly where that is feasible, the noise drawn is
    measured, and an attack tries to distinguish two secrets. The report states which violations the
    audit could have detected.

    Exit code 0: no violation. 1: the promise is broken, or the noise is not as claimed.
    """
    local = None if mechanism is None else mechanism.replace("-", "_")
    local = local if local in LOCAL else None
    name = None if local else known_mechanism(mechanism)
    outputs.check_outputs([], [model, size.data], plot)
    beliefs = inputs.read_model(model)
    given = size.of(beliefs, form)
    lengths = list(given.lengths if isinstance(given, pk.Series) else given)
    from pufferkit.audit import audit as attacked  # noqa: PLC0415

    with terminal.working("attacking"):
        if local:
            response = _response(beliefs, epsilon, local)
            longest = max(lengths)
            result = attacked(response, trials=trials, confidence=confidence, length=longest)
        else:
            states = beliefs.states
            calendar = given.calendar if isinstance(given, pk.Series) else None
            query = question.named(states).bind(states, lengths, calendar)
            noise = calibrated(name, beliefs, query, epsilon)
            result = attacked(noise, beliefs, trials=trials, confidence=confidence)
    if plot is not None:
        from pufferkit import plots  # noqa: PLC0415

        outputs.write_all({plot: plots.picture(plots.audit_figure(result), plot)})
    if as_json:
        known = result.exact is not None and result.exact.complete
        exact = result.exact.loss if known and result.exact is not None else None
        terminal.say(json.dumps({**result.to_dict(), "exact_loss": exact}, indent=2, default=str))
    else:
        terminal.say(str(result))
    if plot is not None:
        terminal.written([plot])
    if not result.passed:
        raise typer.Exit(FAILED)


def _response(beliefs: Beliefs, epsilon: float, name: str) -> Any:
    """The cheapest response of a kind for the one chain of a model."""
    local = import_module("pufferkit.local")
    members = () if beliefs.entries is not None else beliefs.members()
    if len(members) != 1 or members[0].any_start:
        raise ValueError(
            f"--mechanism {name}: needs a model with one chain and a fixed initial distribution"
        )
    return local.cheapest_noise(members[0].chain, epsilon, design=LOCAL[name])
