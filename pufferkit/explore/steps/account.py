"""Step 5: what was released, what it adds up to, entry by entry, and whether it stands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import charts, parts
from pufferkit.explore.workspace import PRIVATE

if TYPE_CHECKING:
    from pufferkit.explore.workspace import Workspace


def draw(workspace: Workspace, go: Callable[[str], None]) -> None:
    """The account of the private series."""
    if not workspace.has_budget or workspace.source(PRIVATE) is None or not workspace.chosen:
        with parts.card("Account", "There is no account yet; set a budget in the fourth step."):
            parts.button("To the release", partial(go, "Release"))
        return
    with parts.card(f"Account “{workspace.account}”"):
        wrong = parts.problem()
        place = ui.element("div").classes("column").style("width: 100%; gap: .75rem")
        waiting = parts.soft("Adding up …")

        async def look() -> None:
            async with parts.attempt(wrong):
                told = await workspace.books()
                if not place.is_deleted:
                    with place:
                        _books(workspace, told)
            if not waiting.is_deleted:
                waiting.delete()

        ui.timer(0, look, once=True)
    _verify(workspace)


def _books(workspace: Workspace, told: dict[str, Any]) -> None:
    ui.label(
        f"Together epsilon {told['spent']:g} of {workspace.budget:g}, by the rule "
        f"{told['rule']}; {told['remaining']:g} remain."
    ).style("font-weight: 600").mark("spent")
    if not told["history"]:
        parts.soft("Nothing was released yet.")
        return
    parts.table(
        ["entry", "what", "mechanism", "epsilon", "total", "when"],
        [
            [
                row["entry"],
                f"{row['query']}, entries {row['window'][0]} to {row['window'][1]}",
                row["mechanism"],
                f"{row['epsilon']:g}",
                f"{row['total']:g}",
                row["made_at"][:16].replace("T", " "),
            ]
            for row in told["history"]
        ],
        numeric=(0, 3, 4),
    )
    parts.heading("What the releases together say about each entry")
    if told["profile"]:
        parts.picture(charts.profile(told["profile"])).mark("profile")
        parts.soft(
            "Solid: the Pufferfish loss of the entry, through its neighbours too. Dashed: the "
            "event-level epsilon that the releases spent on it."
        )
    else:
        parts.soft(told["no_profile"])
    parts.heading("The ledger")
    if told["problems"]:
        for line in told["problems"]:
            ui.label(line).classes("pk-bad")
    else:
        ui.label(f"{told['entries']} entries, nothing wrong; head {told['head']}").style(
            "overflow-wrap: anywhere"
        ).mark("ledger-ok")


def _verify(workspace: Workspace) -> None:
    if not workspace.released:
        return
    with parts.card(
        "Verify", "Recomputes from the record alone that the noise is enough for the promise."
    ):
        wrong = parts.problem()
        place = ui.element("div").classes("column").style("width: 100%; gap: .5rem")

        async def verify(answer: dict[str, Any]) -> None:
            async with parts.attempt(wrong):
                told = await workspace.verify(answer["json"])
                place.clear()
                with place:
                    ui.label(told["text"]).style(
                        "white-space: pre-wrap; overflow-wrap: anywhere"
                    ).classes("" if told["ok"] else "pk-bad").mark("verified")

        with ui.element("div").classes("pk-row"):
            for answer in workspace.released:
                words = f"Verify {answer['query']}, epsilon {answer['epsilon']:g}"
                parts.button(words, partial(verify, answer), mark="verify")
