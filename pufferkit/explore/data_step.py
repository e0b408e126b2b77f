"""Step 1: files, columns and options. Both files are compared before the public one is drawn."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import page_parts
from pufferkit.explore.choices import OPTIONS, DataFile
from pufferkit.explore.worker import Refused
from pufferkit.explore.workspace import PRIVATE, PUBLIC

if TYPE_CHECKING:
    from pufferkit.explore.workspace import File, Workspace

_WORDS = {
    PRIVATE: "The series to release something about. It is read and counted, never drawn.",
    PUBLIC: "Other people's series that may be looked at: for levels, beliefs and pictures.",
}
_ICONS = {PRIVATE: "lock", PUBLIC: "public"}
_NONE = "(none)"


def draw(workspace: Workspace, go: Callable[[str], None]) -> None:
    """Both files, and the demo's."""
    with page_parts.card("No data at hand?", "Invented people: one private week, twelve public."):
        wrong = page_parts.problem()

        async def demo() -> None:
            async with page_parts.attempt(wrong, start):
                await workspace.demo()
                both.refresh()

        start = page_parts.button("Use the demo data", demo, mark="demo")

    @ui.refreshable
    def both() -> None:
        with ui.element("div").classes("pk-two"):
            for role in (PRIVATE, PUBLIC):
                _file(workspace, role, both.refresh)
        if workspace.compared:
            _compared(workspace.compared)
        if workspace.source(PUBLIC) or workspace.source(PRIVATE):
            page_parts.button("Next: beliefs", partial(go, "Beliefs"), main=True, mark="next")

    both()


def _file(workspace: Workspace, role: str, refresh: Any) -> None:
    title, look = f"{role.capitalize()} file", {"icon": _ICONS[role], "tint": f"pk-{role}"}
    with page_parts.card(title, _WORDS[role], **look):
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
            path = page_parts.text_field("Path", "", "~/data/week.csv", mark=f"{role}-path")
            path.on("keydown.enter", named)
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
    """Guessed columns and options, to be corrected; then what was read, or why not."""
    source, names = file.source, list(file.columns.names)
    ui.label(source.path).style("overflow-wrap: anywhere; font-weight: 600")
    fields: dict[str, Any] = {}
    with ui.element("div").classes("pk-row"):
        fields["state"] = _select("States or numbers", names, source.state, f"{role}-state")
        both = [source.time] if "," in source.time and source.time not in names else []
        times = [_NONE, *both, *names]
        fields["time"] = _select("Times", times, source.time or _NONE, f"{role}-time")
        if role == PUBLIC:
            whose = [_NONE, *names]
            fields["subject"] = _select("Person", whose, source.subject or _NONE, f"{role}-subject")
    wrong = page_parts.problem().mark(f"{role}-wrong")
    if source.state in file.columns.numbers or source.cuts:
        fields.update(_levels(workspace, role, source, wrong))
    beside = ui.element("div").classes("pk-row").mark(f"{role}-remedy")
    with (
        page_parts.more("Clock and format of the file"),
        ui.element("div").classes("pk-row") as rest,
    ):
        for name in OPTIONS:
            fields[name] = _option(name, source, role)
    _beside(" ".join(file.seen.get("notes", ())), fields, beside)

    async def read() -> None:
        for name in OPTIONS:
            fields[name].move(rest)
        async with page_parts.attempt(wrong, again):
            said = {name: _said(field.value) for name, field in fields.items()}
            workspace.correct(role, **said)
            try:
                await workspace.read(role)
            except Refused as reason:
                _beside(str(reason), fields, beside)
                raise
            refresh()

    again = page_parts.button("Read the file", read, main=not file.seen, mark=f"{role}-read")
    if file.seen:
        (_public if role == PUBLIC else _private)(file.seen)
        if role == PUBLIC and not workspace.compared:
            page_parts.soft("It is drawn once it was compared with the private file.")


def _beside(said: str, fields: dict[str, Any], place: Any) -> None:
    """Put the controls that a refusal or a remark needs beside it."""
    for name, control in OPTIONS.items():
        if re.search(control.needed, said):
            fields[name].move(place)


def _option(name: str, source: DataFile, role: str) -> Any:
    control, value = OPTIONS[name], getattr(source, name)
    if control.choices is None:
        return page_parts.text_field(control.label, value, control.like, mark=f"{role}-{name}")
    return page_parts.select(control.label, control.choices, value, mark=f"{role}-{name}")


def _levels(workspace: Workspace, role: str, source: DataFile, wrong: ui.label) -> dict[str, Any]:
    """Cut points of a column of numbers."""
    page_parts.soft(
        "A column of numbers becomes states by cut points. They must be public: round numbers, or "
        "cut points of the public file."
    )

    async def suggest() -> None:
        async with page_parts.attempt(wrong):
            cuts.set_value(await workspace.suggest(4))

    with ui.element("div").classes("pk-row"):
        cuts = page_parts.text_field("Cut points", source.cuts, "100, 760", mark=f"{role}-cuts")
        unit = page_parts.text_field("Unit", source.unit, "kW", mark=f"{role}-unit")
        if role == PUBLIC:
            page_parts.button("Four levels, equally full", suggest, mark="suggest")
    return {"cuts": cuts, "unit": unit}


def _select(label: str, options: list[str], value: str, mark: str) -> ui.select:
    return page_parts.select(label, options, value if value in options else None, mark=mark)


def _said(value: str | None) -> str:
    return "" if value in (None, _NONE) else str(value).strip()


def _public(seen: dict[str, Any]) -> None:
    ui.label(seen["report"]).style("white-space: pre-wrap")
    for note in seen["notes"]:
        page_parts.soft(page_parts.plain_words(note))


def _private(seen: dict[str, Any]) -> None:
    pieces = "" if len(seen["lengths"]) == 1 else f" in {len(seen['lengths'])} segments"
    gaps = f", {seen['missing']:,} of them not observed" if seen["missing"] else ""
    ui.label(f"Read: {seen['entries']:,} entries{pieces}{gaps}.").mark("private-read-words")
    for note in seen["notes"]:
        page_parts.soft(page_parts.plain_words(note))
    page_parts.soft("Nothing else of it is shown before there is a release.")


def _compared(both: dict[str, Any]) -> None:
    """The two files side by side; then the public one is drawn."""
    with page_parts.card("The two files were compared"):
        ui.label("✓ No passage of the private file is in the public one.").mark("compared")
        page_parts.table(["in the file", "public", "private"], both["rows"], (1, 2))
        if both["other_step"]:
            ui.label(
                "Their entries are not equally far apart, so beliefs counted from the public file "
                "do not fit: set “Time between entries” of one of them, and read it again."
            ).classes("pk-bad")
    with page_parts.card("The public file", icon=_ICONS[PUBLIC], tint="pk-public"):
        page_parts.table(["state", "share of public entries"], both["shares"], (1,))
        page_parts.heading("The first public person, day by day")
        page_parts.picture(both["picture"])
