"""Steps 4 and 5: the cost, then the release with its record; the account, and verification."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import page_parts
from pufferkit.explore.calls import MECHANISMS

if TYPE_CHECKING:
    from pufferkit.explore.workspace import Workspace


def draw(workspace: Workspace, go: Callable[[str], None]) -> None:
    """Budget, cost, button, and the release."""
    if not workspace.can_release:
        with page_parts.card("Release", "It takes a private file and beliefs; steps one and two."):
            page_parts.button("To the data", partial(go, "Data"))
            page_parts.button("To the beliefs", partial(go, "Beliefs"))
        return

    @ui.refreshable
    def rest() -> None:
        if workspace.has_budget:
            _release(workspace)

    _budget(workspace, rest.refresh)
    rest()
    for answer in reversed(workspace.released):
        _released(workspace, answer)
    if workspace.released:
        page_parts.button("Next: account", partial(go, "Account"), main=True, mark="next")


def _budget(workspace: Workspace, refresh: Any) -> None:
    with page_parts.card(
        "Budget",
        "Epsilon for everything that is ever released about this series, kept in the ledger of the "
        "folder. Set it before the first release, and not by the answers.",
    ):
        wrong = page_parts.problem()

        async def setting() -> None:
            async with page_parts.attempt(wrong, button):
                await workspace.set_budget(account.value or "", budget.value)
                refresh()

        with ui.element("div").classes("pk-row"):
            account = page_parts.text_field(
                "Account: whose series", workspace.account, mark="account"
            )
            budget = ui.number("Budget", value=workspace.budget, min=0.001)
            budget.props("outlined dense").mark("budget")
            button = page_parts.button(
                "Set the budget", setting, main=not workspace.has_budget, mark="set-budget"
            )


def _release(workspace: Workspace) -> None:
    with page_parts.card("Cost first"):
        wrong = page_parts.problem()
        name = workspace.beliefs[workspace.chosen]["name"]
        ui.label(
            f"{workspace.question.words} under “{name}”, epsilon {workspace.epsilon:g}, by "
            f"{MECHANISMS[workspace.mechanism]}."
        ).mark("asked")
        cost = ui.label("Working out what it takes …").mark("cost").props('role="status"')
        drowned = ui.label().classes("pk-bad").mark("release-drowned").props('role="alert"')
        anyway = ui.checkbox("Release it all the same", on_change=lambda _: ready()).mark("anyway")
        anyway.set_visibility(False)
        quote: dict[str, Any] = {"fits": False, "warning": ""}

        async def price() -> None:
            async with page_parts.attempt(wrong):
                quote.update(await workspace.cost())
                if cost.is_deleted:
                    return
                verdict = "fits" if quote["fits"] else "does NOT fit"
                of = f"{quote['cost']:g} of the {quote['remaining']:g} that remain"
                cost.set_text(f"It takes {of}: {verdict}.")
                drowned.set_text(quote["warning"])
                anyway.set_visibility(bool(quote["warning"]))
                ready()
            if wrong.text and not cost.is_deleted:
                cost.set_text("")

        def ready() -> None:
            press.set_enabled(bool(quote["fits"] and (anyway.value or not quote["warning"])))

        async def pressed() -> None:
            workspace.anyway = bool(anyway.value)
            press.disable()
            async with page_parts.attempt(wrong):
                await workspace.release()  # which draws every page of this workspace anew

        press = page_parts.button("Release", pressed, main=True, mark="release")
        press.disable()
        ui.timer(0, price, once=True)


def _released(workspace: Workspace, answer: dict[str, Any]) -> None:
    with page_parts.card(f"Released: {answer['query']}, epsilon {answer['epsilon']:g}"):
        wrong = page_parts.problem()
        place = ui.element("div").style("width: 100%")

        def shown(drawn: Any) -> None:
            place.clear()
            with place:
                page_parts.picture(drawn)

        async def opted(event: Any) -> None:
            async with page_parts.attempt(wrong):
                exact = (answer["request"], answer["json"])
                shown(await workspace.exact(*exact) if event.value else answer["picture"])

        shown(answer["picture"])
        page_parts.said(answer["said"], (1, 2)).mark("release-text")
        if not answer["derived"]:
            ui.switch(
                "Draw the exact answer too, for my eyes only. It has no privacy.", on_change=opted
            ).mark("exact")
        plain = re.sub(r"[^a-z0-9]+", "-", answer["query"].lower())
        file = f"{plain}-epsilon-{answer['epsilon']:g}"
        verdict = ui.element("div").classes("pk-stack").props('role="status"')
        with ui.element("div").classes("pk-row"):
            for name, kind in (("record", "json"), ("report", "html")):
                save = partial(ui.download.content, answer["json" if kind == "json" else name])
                page_parts.button(
                    f"Download the {name}", partial(save, f"{file}.{kind}"), mark=name
                )
            verify = partial(_verified, workspace, answer["json"], verdict, wrong)
            page_parts.button("Verify it", verify, mark="verify-release")
        page_parts.soft("Both of these do the same, and give the same answer at no further cost:")
        page_parts.code("Python", answer["python"])
        page_parts.code("Command line", answer["command"])


def draw_account(workspace: Workspace, go: Callable[[str], None]) -> None:
    """The account of the private series, and records of others."""
    if not workspace.has_budget or not workspace.can_release:
        with page_parts.card("Account", "There is no account yet; set a budget in step four."):
            page_parts.button("To the release", partial(go, "Release"), main=True, mark="to")
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
    with page_parts.card("A release one did not make", "Paste the JSON of anybody's release."):
        text = ui.textarea("Record").props("outlined dense rows=3").mark("record")
        given_wrong = page_parts.problem()
        verdict = ui.element("div").classes("pk-stack").props('role="status"')

        async def verify() -> None:
            await _verified(workspace, text.value or "", verdict, given_wrong)

        page_parts.button("Verify it", verify, mark="verify-given")


def _books(workspace: Workspace, books: dict[str, Any]) -> None:
    ui.label(
        f"Together epsilon {books['spent']:g} of {workspace.budget:g}; {books['remaining']:g} "
        "remain."
    ).style("font-weight: 600").mark("spent")
    if not books["rows"]:
        page_parts.soft("Nothing was released yet.")
        return
    page_parts.heading("What was released")
    page_parts.table(["what", "mechanism", "epsilon", "total", "when"], books["rows"], (2, 3))
    page_parts.heading("What the releases together say about each entry")
    if books["picture"]:
        page_parts.picture(books["picture"]).mark("profile")
    else:
        page_parts.soft(books["no_profile"])
    page_parts.heading("The ledger")
    for line in books["problems"]:
        ui.label(line).classes("pk-bad")
    if not books["problems"]:
        ui.label(books["ledger"]).style("overflow-wrap: anywhere").mark("ledger-ok")
    page_parts.heading("Verify")
    page_parts.soft("Recomputes from the record alone that the noise is enough for the promise.")
    place = ui.element("div").classes("pk-stack").props('role="status"')
    wrong = page_parts.problem()
    with ui.element("div").classes("pk-row"):
        for record in books["records"]:
            verify = partial(_verified, workspace, record["json"], place, wrong)
            page_parts.button(f"Verify {record['name']}", verify, mark="verify")


async def _verified(workspace: Workspace, record: str, place: Any, wrong: ui.label) -> None:
    """Verify a record, and show the result."""
    place.clear()
    async with page_parts.attempt(wrong):
        check = await workspace.verify(record)
        if place.is_deleted:
            return
        with place:
            page_parts.said(check["said"]).mark("verified")
