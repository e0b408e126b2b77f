"""Step 4: the cost, then the release; its record, and the code that does the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import page_charts, page_parts
from pufferkit.explore.release_tasks import MECHANISMS
from pufferkit.explore.workspace import PRIVATE

if TYPE_CHECKING:
    from pufferkit.explore.workspace import Workspace

_MOST_ROWS = 12


def draw(workspace: Workspace, go: Callable[[str], None]) -> None:
    """Budget, cost, button, and the release."""
    if workspace.source(PRIVATE) is None or not workspace.chosen:
        with page_parts.card("Release", "It takes a private file and beliefs; steps one and two."):
            page_parts.button("To the data", partial(go, "Data"))
            page_parts.button("To the beliefs", partial(go, "Beliefs"))
        return

    @ui.refreshable
    def rest() -> None:
        if workspace.has_budget:
            _release(workspace, done.refresh)

    @ui.refreshable
    def done() -> None:
        for answer in reversed(workspace.released):
            _released(workspace, answer)
        if workspace.released:
            page_parts.button("Next: account", partial(go, "Account"), main=True, mark="next")

    _budget(workspace, rest.refresh)
    rest()
    done()


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
            account = ui.input("Account: whose series", value=workspace.account)
            account.props("outlined dense").mark("account")
            budget = ui.number("Budget", value=workspace.budget, min=0.001)
            budget.props("outlined dense").mark("budget")
            button = page_parts.button(
                "Set the budget", setting, main=not workspace.has_budget, mark="set-budget"
            )


def _release(workspace: Workspace, refresh: Any) -> None:
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
        price_known = {"fits": False, "drowned": False}

        async def price() -> None:
            async with page_parts.attempt(wrong):
                quote = await workspace.cost()
                if cost.is_deleted:
                    return
                verdict = "fits" if quote["fits"] else "does NOT fit"
                cost.set_text(
                    f"It takes {quote['cost']:g} of the {quote['remaining']:g} that remain: "
                    f"{verdict}."
                )
                drowned.set_text(quote["warning"])
                anyway.set_visibility(bool(quote["warning"]))
                price_known.update(fits=quote["fits"], drowned=bool(quote["warning"]))
                ready()
            if wrong.text and not cost.is_deleted:
                cost.set_text("")

        def ready() -> None:
            meant = anyway.value or not price_known["drowned"]
            press.set_enabled(bool(price_known["fits"] and meant))

        async def pressed() -> None:
            workspace.anyway = bool(anyway.value)
            press.disable()
            async with page_parts.attempt(wrong):
                await workspace.release()
                refresh()
            if not wrong.text:
                await price()

        press = page_parts.button("Release", pressed, main=True, mark="release")
        press.disable()
        ui.timer(0, price, once=True)


def _released(workspace: Workspace, answer: dict[str, Any]) -> None:
    with page_parts.card(f"Released: {answer['query']}, epsilon {answer['epsilon']:g}"):
        wrong = page_parts.problem()
        place = ui.element("div").style("width: 100%")

        def shown(exact: list[float] | None) -> None:
            place.clear()
            if answer["grid"] is not None:
                both = {"released, with noise": answer["value"]}
                if exact is not None:
                    both["exact answer: private"] = exact
                with place:
                    page_parts.picture(*page_charts.tables(answer["grid"], both, answer["query"]))
                return
            truth = {} if exact is None else {"exact answer: private": list(enumerate(exact))}
            with place:
                page_parts.picture(
                    page_charts.bars_with_errors(
                        answer["labels"],
                        answer["value"],
                        answer["interval"],
                        truth,
                        answer["query"],
                        "released, with noise",
                    )
                )

        async def opted(event: Any) -> None:
            async with page_parts.attempt(wrong):
                shown(await workspace.exact(answer["deal"]) if event.value else None)

        shown(None)
        _in_words(answer)
        if not answer["derived"]:
            ui.switch(
                "Draw the exact answer too, for my eyes only. It has no privacy.", on_change=opted
            ).mark("exact")
        plain = re.sub(r"[^a-z0-9]+", "-", answer["query"].lower())
        file = f"{plain}-epsilon-{answer['epsilon']:g}.json"
        page_parts.button(
            "Download JSON", lambda: ui.download.content(answer["json"], file), mark="json"
        )
        page_parts.soft("Both of these do the same, and give the same answer at no further cost:")
        page_parts.code("Python", answer["python"])
        page_parts.code("Command line", answer["command"])


def _in_words(answer: dict[str, Any]) -> None:
    """The numbers as a table, and the text of the record."""
    rows = [
        [label, f"{value:.5g}", f"{low:.5g}", f"{high:.5g}"]
        for label, value, (low, high) in zip(
            answer["labels"], answer["value"], answer["interval"], strict=True
        )
    ]
    heads = ["", "released", "95% from", "to"]
    if len(rows) <= _MOST_ROWS:
        page_parts.table(heads, rows, numeric=(1, 2, 3))
    else:
        with page_parts.more(f"All {len(rows)} numbers"):
            page_parts.table(heads, rows, numeric=(1, 2, 3))
    with page_parts.more("The record in words"):
        ui.label(answer["text"]).classes("pk-words").mark("release-text")
