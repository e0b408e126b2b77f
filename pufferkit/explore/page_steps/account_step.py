"""Step 5: the releases, their joint epsilon, the spending on each entry, and verification."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import page_charts, page_parts
from pufferkit.explore.workspace import PRIVATE

if TYPE_CHECKING:
    from pufferkit.explore.workspace import Workspace


def draw(workspace: Workspace, go: Callable[[str], None]) -> None:
    """The account of the private series."""
    if not workspace.has_budget or workspace.source(PRIVATE) is None or not workspace.chosen:
        with page_parts.card(
            "Account", "There is no account yet; set a budget in the fourth step."
        ):
            page_parts.button(
                "To the release", partial(go, "Release"), main=True, mark="to-release"
            )
    else:
        with page_parts.card(f"Account “{workspace.account}”"):
            wrong = page_parts.problem()
            place = ui.element("div").classes("pk-stack")
            waiting = page_parts.soft("Adding up …")

            async def look() -> None:
                async with page_parts.attempt(wrong):
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
        page_parts.soft("Nothing was released yet.")
        return
    page_parts.heading("What was released")
    page_parts.table(
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
    page_parts.heading("What the releases together say about each entry")
    if books["profile"]:
        page_parts.picture(page_charts.profile(books["profile"])).mark("profile")
        page_parts.soft(
            "Solid: the Pufferfish loss of the entry, through its neighbours too. Dashed: the "
            "event-level epsilon that the releases spent on it."
        )
    else:
        page_parts.soft(books["no_profile"])
    page_parts.heading("The ledger")
    if books["problems"]:
        for line in books["problems"]:
            ui.label(line).classes("pk-bad")
    else:
        ui.label(f"{books['entries']} entries, nothing wrong; head {books['head']}").style(
            "overflow-wrap: anywhere"
        ).mark("ledger-ok")
    page_parts.heading("Verify")
    page_parts.soft("Recomputes from the record alone that the noise is enough for the promise.")
    place = ui.element("div").classes("pk-stack").props('role="status"')
    wrong = page_parts.problem()
    with ui.element("div").classes("pk-row"):
        for record in books["records"]:
            words = f"Verify {record['query']}, epsilon {record['epsilon']:g}"
            verify = partial(_verified, workspace, record["json"], place, wrong)
            page_parts.button(words, verify, mark="verify")


async def _verified(workspace: Workspace, record: str, place: Any, wrong: ui.label) -> None:
    """Verify a record, and show the result."""
    place.clear()
    async with page_parts.attempt(wrong):
        check = await workspace.verify(record)
        if place.is_deleted:
            return
        with place:
            head, *rest = check["text"].splitlines()
            ui.label(head).style("font-weight: 600").classes("" if check["ok"] else "pk-bad").mark(
                "verified"
            )
            if rest:
                with page_parts.more("What was recomputed, and what is assumed"):
                    ui.label("\n".join(rest)).classes("pk-words")


def _given(workspace: Workspace) -> None:
    """A record from somebody else."""
    with page_parts.card(
        "A release one did not make",
        "Paste the JSON of a release, of this account or of somebody else's.",
    ):
        text = ui.textarea("Record").props("outlined dense rows=3").mark("record")
        wrong = page_parts.problem()
        place = ui.element("div").classes("pk-stack").props('role="status"')

        async def verify() -> None:
            await _verified(workspace, text.value or "", place, wrong)

        page_parts.button("Verify it", verify, mark="verify-given")
