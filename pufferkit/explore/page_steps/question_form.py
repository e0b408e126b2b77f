"""The form of a question: topic, question, and the states or numbers it needs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import page_parts
from pufferkit.explore.page_questions import VALUED, PageQuestion, arguments
from pufferkit.explore.workspace import PRIVATE

if TYPE_CHECKING:
    from pufferkit.explore.workspace import Workspace


def draw(workspace: Workspace, changed: Any) -> None:
    """Controls of a question; ``changed`` is called when it changes."""
    groups = workspace.groups

    async def ask(kind: str) -> None:
        workspace.question = PageQuestion.first(kind, workspace.states)
        fields.refresh()
        await changed()

    async def grouped(event: Any) -> None:
        if event.value != workspace.question.group:
            kinds = groups[event.value]
            which.set_options(kinds, value=next(iter(kinds)))

    async def chosen(event: Any) -> None:
        if event.value is not None and event.value != workspace.question.kind:
            await ask(event.value)

    async def lengthened(event: Any) -> None:
        if event.value and event.value >= 1:
            workspace.length = int(event.value)
            await changed()

    @ui.refreshable
    def fields() -> None:
        _fields(workspace, changed)

    question = workspace.question
    with ui.element("div").classes("pk-row"):
        page_parts.select(
            "About", {name: name for name in groups}, question.group, grouped, mark="group"
        )
        which = page_parts.select(
            "What is asked", groups[question.group], question.kind, chosen, mark="kind"
        ).style("flex: 2 1 18rem")
        if workspace.source(PRIVATE) is None:
            ui.number(
                "Entries in the series", value=workspace.length, min=1, step=1, on_change=lengthened
            ).props("outlined dense debounce=500").mark("length")
    if not workspace.has_clock:
        page_parts.soft("Questions about hours and days need a private file with times.")
    fields()


def _fields(workspace: Workspace, changed: Any) -> None:
    """Further fields of the question."""
    question, states = workspace.question, workspace.states

    async def set_to(**fields: Any) -> None:
        workspace.question = replace(workspace.question, **fields)
        await changed()

    async def of(event: Any) -> None:
        names = event.value if isinstance(event.value, list) else [event.value]
        await set_to(of=tuple(name for name in states if name in names))

    async def number(field: str, event: Any) -> None:
        if event.value is not None:
            await set_to(**{field: float(event.value)})

    async def text(field: str, event: Any) -> None:
        await set_to(**{field: (event.value or "").strip()})

    async def valued(name: str, event: Any) -> None:
        if event.value is not None:
            values = {**dict(workspace.question.values), name: float(event.value)}
            await set_to(values=tuple(values.items()))

    def typed(label: str, field: str) -> None:
        ui.input(label, value=getattr(question, field), on_change=partial(text, field)).props(
            "outlined dense debounce=600"
        ).mark(field)

    def numbered(label: str, field: str, **limits: Any) -> None:
        ui.number(
            label, value=getattr(question, field), on_change=partial(number, field), **limits
        ).props("outlined dense debounce=600").mark(field)

    with ui.element("div").classes("pk-row"):
        for form in [own.metadata["form"] for own in arguments(question.kind)]:
            if form == "states" and question.kind == "count":
                page_parts.select("State", states, question.of[0], of, mark="of")
            elif form == "states":
                page_parts.select("States", states, list(question.of), of, mark="of", multiple=True)
            elif form == "time":
                typed("At least, like 30m or 2h", "at_least")
            elif form == "hours":
                typed("Between, like 22:00-06:00", "between")
            elif form == "share":
                words = "Share of entries below it; 0.5 is the median"
                numbered(words, "at", min=0, max=1, step=0.05)
            elif form == "whole":
                numbered("How many states", "top", min=1, step=1)
            elif form == "range" and question.ranged:
                numbered("Values are kept at or above", "low")
                numbered("and at or below", "high")
    if question.kind in VALUED:
        page_parts.soft("The value of each state:")
        with ui.element("div").classes("pk-row"):
            for name, value in question.values:
                ui.number(name, value=value, on_change=partial(valued, name)).props(
                    "outlined dense debounce=600"
                )
