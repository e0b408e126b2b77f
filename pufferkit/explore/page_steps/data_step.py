"""Step 1: files, columns and levels. Only the public file is plotted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import page_charts, page_parts
from pufferkit.explore.workspace import PRIVATE, PUBLIC

if TYPE_CHECKING:
    from pufferkit.explore.workspace import File, Workspace

_WORDS = {
    PRIVATE: "The series to release something about. It is read and counted, never drawn.",
    PUBLIC: "Other people's series that may be looked at: for levels, for beliefs, for pictures.",
}
_NONE = "(none)"


def draw(workspace: Workspace, go: Callable[[str], None]) -> None:
    """Both files, and the demo's."""
    with page_parts.card(
        "No data at hand?", "Made-up people: one private week, twelve public ones."
    ):
        wrong = page_parts.problem()

        async def demo() -> None:
            async with page_parts.attempt(wrong, start):
                await workspace.demo()
                both.refresh()

        start = page_parts.button("Use the demo data", demo, mark="demo")

    @ui.refreshable
    def both() -> None:
        for role in (PUBLIC, PRIVATE):
            _file(workspace, role, both.refresh)
        if workspace.source(PUBLIC) or workspace.source(PRIVATE):
            page_parts.button("Next: beliefs", partial(go, "Beliefs"), main=True, mark="next")

    both()


def _file(workspace: Workspace, role: str, refresh: Any) -> None:
    with page_parts.card(f"{role.capitalize()} file", _WORDS[role]):
        wrong = page_parts.problem()

        async def named() -> None:
            async with page_parts.attempt(wrong, take):
                await workspace.name(role, path.value)
                refresh()

        async def dropped(event: Any) -> None:
            async with page_parts.attempt(wrong):
                await workspace.drop(role, event.file)
                refresh()

        with ui.element("div").classes("pk-row") as row:
            path = ui.input("Path on this machine", placeholder="~/data/week.csv")
            path.props("outlined dense").on("keydown.enter", named).mark(f"{role}-path")
            take = page_parts.button("Open", named, mark=f"{role}-open")
        drop = ui.upload(
            label="or drop a file here; it is copied to the folder named above, for you alone",
            on_upload=dropped,
            auto_upload=True,
        ).props("flat bordered accept='.csv,.txt,.tsv,.gz,.parquet'")
        drop.style("width: 100%").mark(f"{role}-drop")
        with row:
            # In the browser: choosers open only from what a person presses.
            ui.button("Choose a file").props("no-caps outline").on(
                "click", js_handler=f"() => getElement({drop.id}).pickFiles()"
            )
        if role in workspace.files:
            _columns(workspace, role, workspace.files[role], refresh)


def _columns(workspace: Workspace, role: str, file: File, refresh: Any) -> None:
    """Guessed columns, to be corrected; then what was read."""
    wrong = page_parts.problem()
    source, names = file.source, list(file.columns.names)
    ui.label(source.path).style("overflow-wrap: anywhere; font-weight: 600")
    with ui.element("div").classes("pk-row"):
        state = _select("States or numbers", names, source.state, f"{role}-state")
        both = [source.time] if "," in source.time and source.time not in names else []
        time = _select("Times", [_NONE, *both, *names], source.time or _NONE, f"{role}-time")
        subject = None
        if role == PUBLIC:
            subject = _select("Person", [_NONE, *names], source.subject or _NONE, f"{role}-subject")
    cuts = unit = None
    if source.state in file.columns.numbers or source.cuts:
        cuts, unit = _levels(workspace, role, file, wrong)

    with page_parts.more("Clocks that are not even"), ui.element("div").classes("pk-row"):
        every = ui.input("Put entries on a grid, like 5m", value=source.every)
        every.props("outlined dense").mark(f"{role}-every")
        apart = ui.input("Rows further apart are independent", value=source.independent_after)
        apart.props('outlined dense placeholder="never, or like 3h"').mark(f"{role}-apart")

    async def read() -> None:
        async with page_parts.attempt(wrong, again):
            said = {"state": state.value or "", "time": _said(time.value)}
            said.update(every=every.value.strip(), independent_after=apart.value.strip())
            if subject is not None:
                said["subject"] = _said(subject.value)
            if cuts is not None and unit is not None:
                said.update(cuts=cuts.value.strip(), unit=unit.value.strip())
            await workspace.correct(role, **said)
            await workspace.read(role)
            refresh()

    again = page_parts.button("Read the file", read, main=not file.seen, mark=f"{role}-read")
    if file.seen:
        (_public if role == PUBLIC else _private)(file.seen)


def _levels(workspace: Workspace, role: str, file: File, wrong: ui.label) -> tuple[Any, Any]:
    """Cut points of a column of numbers."""
    page_parts.soft(
        "A column of numbers becomes states by cut points. They must be public: round numbers, or "
        "cut points of the public file."
    )

    async def suggest() -> None:
        async with page_parts.attempt(wrong):
            cuts.set_value(await workspace.suggest(role, 4))

    with ui.element("div").classes("pk-row"):
        cuts = ui.input("Cut points", value=file.source.cuts, placeholder="100, 760, 2020")
        cuts.props("outlined dense").mark(f"{role}-cuts")
        unit = ui.input("Unit", value=file.source.unit, placeholder="kW").props("outlined dense")
        if role == PUBLIC:
            page_parts.button("Four levels, equally full", suggest, mark="suggest")
    return cuts, unit


def _select(label: str, options: list[str], value: str, mark: str) -> ui.select:
    return page_parts.select(label, options, value if value in options else None, mark=mark)


def _said(value: str | None) -> str:
    return "" if value in (None, _NONE) else str(value)


def _public(seen: dict[str, Any]) -> None:
    ui.label(seen["report"]).style("white-space: pre-wrap")
    page_parts.heading("Levels of the public file")
    page_parts.picture(page_charts.shares(seen["states"], seen["shares"]))
    page_parts.heading("The first public person")
    page_parts.picture(
        page_charts.days(seen["codes"], seen["states"], seen["day"], has_clock=seen["has_clock"])
    )


def _private(seen: dict[str, Any]) -> None:
    pieces = "" if len(seen["lengths"]) == 1 else f" in {len(seen['lengths'])} segments"
    gaps = f", {seen['missing']:,} of them not observed" if seen["missing"] else ""
    ui.label(f"Read: {seen['entries']:,} entries{pieces}{gaps}.").mark("private-read-words")
    for note in seen["notes"]:
        page_parts.soft(f"read as: {note}")
    page_parts.soft(
        "Nothing else of it is shown. After a release from a budget you may ask to see the exact "
        "answer beside it."
    )
