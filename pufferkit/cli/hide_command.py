"""``pufferkit model hide``: beliefs with secrets other than the values of single entries."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Annotated, cast

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.flags import File, option, whole
from pufferkit.cli.model_command import ModelFile, app, give
from pufferkit.errors import printable

if TYPE_CHECKING:
    from pufferkit import ChainClass
    from pufferkit.beliefs.base import Beliefs

_EVENT = "STATE:ENTRIES[:TIMES]"
_WHOLE = "STATE:ENTRIES"
_PAIR = "STATE:STATE[:TIMES]"


@app.command()
def hide(
    model: ModelFile,
    runs: Annotated[int | None, whole("Any values of N entries in a row.")] = None,
    sets: Annotated[int | None, whole("Any values of N entries, anywhere.")] = None,
    at_least: Annotated[
        list[str] | None,
        option("Whether a state occurs at least TIMES in N entries in a row.", _EVENT),
    ] = None,
    throughout: Annotated[
        list[str] | None, option("Whether N entries in a row all have a state.", _WHOLE)
    ] = None,
    pair: Annotated[
        list[str] | None,
        option("Only this pair of states of an entry; at TIMES epsilon, 1 or more.", _PAIR),
    ] = None,
    only: Annotated[
        bool, option("Do not also hide the values of single entries.", None, "--only")
    ] = False,
    out: Annotated[File, option("Write here instead of stdout.", "FILE")] = None,
    as_json: Annotated[bool, option("Print the JSON even with --out.", None, "--json")] = False,
) -> None:
    """The same beliefs with other secrets: values of several entries, events, named pairs.

    Every command accepts the new model; its releases promise to hide exactly these secrets.
    """
    outputs.check_outputs([out], [model])
    beliefs = inputs.read_model(model)
    if beliefs.entries is not None:
        raise ValueError("MODEL: events about several entries in a row need a model of chains")
    secrets = [] if runs is None else [pk.Secrets.runs(runs)]
    secrets += [] if sets is None else [pk.Secrets.sets(sets)]
    for given in at_least or ():
        state, within, *times = _parts("--at-least", given, _EVENT, 2, 3)
        often = terminal.integer(times[0]) if times else 1
        named = _state("--at-least", state, beliefs)
        secrets.append(pk.Secrets.at_least(named, terminal.integer(within), often))
    for given in throughout or ():
        state, within = _parts("--throughout", given, _WHOLE, 2, 2)
        named = _state("--throughout", state, beliefs)
        secrets.append(pk.Secrets.throughout(named, terminal.integer(within)))
    if pair:
        pairs = {}
        for given in pair:
            one, other, *multiple = _parts("--pair", given, _PAIR, 2, 3)
            both = _state("--pair", one, beliefs), _state("--pair", other, beliefs)
            pairs[both] = terminal.number(multiple[0]) if multiple else 1.0
        secrets.append(pk.Secrets.pairs(pairs))
    if not secrets:
        raise ValueError("no secrets given; use --runs, --sets, --at-least, --throughout or --pair")
    hiding = cast("ChainClass", beliefs).with_secrets(*secrets, entries=False if only else None)
    terminal.warn(hiding.caveats[-1])
    give(hiding.to_json(indent=2) + "\n", out, as_json)


def _parts(flag: str, given: str, form: str, least: int, most: int) -> list[str]:
    parts = given.split(":")
    if not least <= len(parts) <= most or not all(parts):
        raise ValueError(f"{flag}: expected {form}, got {given!r}")
    return parts


def _state(flag: str, text: str, beliefs: Beliefs) -> Hashable:
    for state in beliefs.states:
        if str(state) == text:
            return state
    known = ", ".join(printable(state) for state in beliefs.states)
    raise ValueError(f"{flag}: {text!r} is not a state of the model; it has {known}")
