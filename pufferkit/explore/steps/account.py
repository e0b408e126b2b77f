"""Step 5: the releases, their joint epsilon, the spending on each entry, and verification."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import page_charts, parts
from pufferkit.explore.workspace import PRIVATE

if TYPE_CHECKING:
    from pufferkit.explore.workspace import Workspace


def draw(workspace: Workspace, go: Callable[[str], None]) -> None:
    """The account of the private series."""
    if not workspace.has_budget or workspace.source(PRIVATE) is None or not workspace.chosen:
        with parts.card("Account", "There is no account yet; set a budget in the fourth step."):
            parts.button("To the release", partial(go, "Release"), main=True, mark="to-release")
    else:
        with parts.card(f"Account “{workspace.account}”"):
            wrong = parts.problem()
            place = ui.element("div").classes("pk-stack")
            waiting = parts.soft("Adding up …")

            async def look() -> None:
                async with parts.attempt(wrong):
                    books = await workspace.books()
                    if not place.is_deleted:
                        with place:
                            _books(workspace, books)
                if not waiting.is_deleted:
                    waiting.delete()

            ui.timer(0, look, once=True)
    _given(workspace)


def _books(workspace: Workspace, books: dict[str, Any]) -> None:
    ui.label(
        f"Together epsilon {books['spent']:g} of {workspace.budget:g}, by the rule "
        f"{books['rule']}; {books['remaining']:g} remain."
    ).style("font-weight: 600").mark("spent")
    if not books["history"]:
        parts.soft("Nothing was released yet.")
        return
    parts.heading("What was released")
    parts.table(
        ["what", "mechanism", "epsilon", "total", "when"],
        [
            [
                f"{row['query']}, entries {row['window'][0]} to {row['window'][1]}",
                row["mechanism"],
                f"{row['epsilon']:g}",
                f"{row['total']:g}",
                row["made_at"][:16].replace("T", " "),
            ]
            for row in books["history"]
        ],
        numeric=(2, 3),
    )
    parts.heading("What the releases together say about each entry")
    if books["profile"]:
        parts.picture(page_charts.profile(books["profile"])).mark("profile")
        parts.soft(
            "Solid: the Pufferfish loss of the entry, through its neighbours too. Dashed: the "
            "event-level epsilon that the releases spent on it."
        )
    else:
        parts.soft(books["no_profile"])
    parts.heading("The ledger")
    if books["problems"]:
        for line in books["problems"]:
            ui.label(line).classes("pk-bad")
    else:
        ui.label(f"{books['entries']} entries, nothing wrong; head {books['head']}").style(
            "overflow-wrap: anywhere"
        ).mark("ledger-ok")
    parts.heading("Verify")
    parts.soft("Recomputes from the record alone that the noise is enough for the promise.")
    place = ui.element("div").classes("pk-stack").props('role="status"')
    wrong = parts.problem()
    with ui.element("div").classes("pk-row"):
        for record in books["records"]:
            words = f"Verify {record['query']}, epsilon {record['epsilon']:g}"
            verify = partial(_verified, workspace, record["json"], place, wrong)
            parts.button(words, verify, mark="verify")


async def _verified(workspace: Workspace, record: str, place: Any, wrong: ui.label) -> None:
    """Verify a record, and show the result."""
    place.clear()
    async with parts.attempt(wrong):
        check = await workspace.verify(record)
        if place.is_deleted:
            return
        with place:
            head, *rest = check["text"].splitlines()
            ui.label(head).style("font-weight: 600").classes("" if check["ok"] else "pk-bad").mark(
                "verified"
            )
            if rest:
                with parts.more("What was recomputed, and what is assumed"):
                    ui.label("\n".join(rest)).classes("pk-words")


def _given(workspace: Workspace) -> None:
    """A record from somebody else."""
    with parts.card(
        "A release one did not make",
        "Paste the JSON of a release, of this account or of somebody else's.",
    ):
        text = ui.textarea("Record").props("outlined dense rows=3").mark("record")
        wrong = parts.problem()
        place = ui.element("div").classes("pk-stack").props('role="status"')

        async def verify() -> None:
            await _verified(workspace, text.value or "", place, wrong)

        parts.button("Verify it", verify, mark="verify-given")
