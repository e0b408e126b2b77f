"""The page: five steps from a file to an account, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import page_parts
from pufferkit.explore.page_steps import (
    account_step,
    beliefs_step,
    data_step,
    question_step,
    release_step,
)
from pufferkit.explore.workspace import STEPS

if TYPE_CHECKING:
    from pufferkit.explore.workspace import Workspace

_DRAWN = dict(
    zip(STEPS, (data_step, beliefs_step, question_step, release_step, account_step), strict=True)
)
_LOOK_EVERY = 0.2
_SHADES = {"Auto": None, "Light": False, "Dark": True}


def draw(workspace: Workspace) -> None:
    """The whole page, for the current state of the workspace."""
    ui.add_css(page_parts.STYLE)
    ui.add_body_html(page_parts.FOCUS)
    ui.colors(primary="#0072B2", secondary="#56B4E9", accent="#D55E00", negative="#a33b00")
    shade = ui.dark_mode(workspace.dark)

    def shaded(event: Any) -> None:
        workspace.dark = _SHADES[event.value]
        shade.set_value(workspace.dark)

    with ui.element("main").classes("pk-page column"):
        with ui.element("div").classes("pk-row pk-head"):
            with ui.element("h1").style("font-size: 1.3rem; font-weight: 700; margin: 0"):
                ui.label("pufferkit explorer")
            ui.space()
            names = {value: name for name, value in _SHADES.items()}
            ui.toggle(list(_SHADES), value=names[workspace.dark], on_change=shaded).props(
                'dense no-caps flat aria-label="Colours"'
            )
        page_parts.soft(
            "Runs on this machine only: served on 127.0.0.1 behind the token in the address. "
            f"Nothing is sent elsewhere; files, models and the ledger stay in {workspace.folder}."
        )

        @ui.refreshable
        def step() -> None:
            with ui.element("div").classes("column").style("width: 100%; gap: 1rem"):
                _DRAWN[workspace.step].draw(workspace, go)

        def go(name: str) -> None:
            tabs.set_value(name)
            ui.run_javascript(page_parts.TO_HEADING)

        def went(event: Any) -> None:
            if event.value != workspace.step:
                workspace.step = event.value
                step.refresh()

        with (
            ui.tabs(on_change=went)
            .props('no-caps align="left" outside-arrows mobile-arrows dense')
            .style("width: 100%; border-bottom: 1px solid var(--pk-line)") as tabs
        ):
            for n, name in enumerate(STEPS, 1):
                ui.tab(name, label=f"{n} {name}").mark(f"step-{name}")
        tabs.set_value(workspace.step)
        bar = _work(workspace)
        step()
    seen = {"version": workspace.version}

    def look() -> None:
        bar()
        if seen["version"] != workspace.version:
            seen["version"] = workspace.version
            step.refresh()

    ui.timer(_LOOK_EVERY, look)


def _work(workspace: Workspace) -> Any:
    """A status line for long work, with a button that stops it."""
    with ui.element("div").classes("pk-row").props('role="status"') as line:
        ui.spinner(size="1.2em")
        words = ui.label()
        ui.space()
        page_parts.button("Stop", workspace.cancel, mark="stop")

    def look() -> None:
        line.set_visibility(workspace.work.under_way)
        words.set_text(f"{workspace.work.name} … {workspace.work.progress}")

    look()
    return look
