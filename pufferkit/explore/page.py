"""The page: five steps from a file to an account, one at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import beliefs_step, data_step, page_parts, question_step, release_step
from pufferkit.explore.workspace import PRIVATE, PUBLIC, STEPS

if TYPE_CHECKING:
    from pufferkit.explore.workspace import Workspace

_DRAWN = {
    "Data": data_step.draw,
    "Beliefs": beliefs_step.draw,
    "Question": question_step.draw,
    "Release": release_step.draw,
    "Account": release_step.draw_account,
}
_HERE = Path(__file__).parent
_LOOK_EVERY = 0.2
_SHADES = {"Auto": None, "Light": False, "Dark": True}


def draw(workspace: Workspace) -> None:
    """The whole page, for the current state of the workspace."""
    ui.add_css(_HERE / "page.css")
    ui.add_body_html(f"<script>{(_HERE / 'page.js').read_text(encoding='utf-8')}</script>")
    ui.colors(primary="#005F96", secondary="#56B4E9", accent="#D55E00", negative="#a33b00")
    shade = ui.dark_mode(workspace.dark)

    def shaded(event: Any) -> None:
        workspace.dark = _SHADES[event.value]
        shade.set_value(workspace.dark)

    def guided(event: Any) -> None:
        workspace.guided = bool(event.value)
        step.refresh()

    with ui.element("div").classes("pk-page column"):
        with ui.element("div").classes("pk-row pk-head"):
            with ui.element("h1").style("font-size: 1.3rem; font-weight: 700; margin: 0"):
                ui.label("pufferkit explorer")
            ui.space()
            ui.switch("Tutorial", value=workspace.guided, on_change=guided).mark("tutorial")
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
                if workspace.guided:
                    _guide(workspace)
                _DRAWN[workspace.step](workspace, go)

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
    """The progress of long work, with a button that stops it."""
    with ui.element("div").classes("pk-stack").props('role="status"') as line:
        with ui.element("div").classes("pk-row"):
            words = ui.label()
            ui.space()
            page_parts.button("Stop", workspace.cancel, mark="stop")
        bar = ui.linear_progress(0.0, show_value=False).props('aria-label="Progress"')

    def look() -> None:
        line.set_visibility(bool(workspace.work))
        part = workspace.part
        done = "" if part is None else f" {part:.0%}"
        words.set_text(f"{workspace.work} …{done} {workspace.doing}")
        bar.set_value(part or 0.0)
        bar.props(remove="indeterminate") if part is not None else bar.props("indeterminate")

    look()
    return look


_WHY = {
    "Data": "Privacy is for the private file. What an adversary may know comes from the public "
    "one, of other people; so the two must be different.",
    "Beliefs": "Entries predict one another: who knows how people move from state to state learns "
    "about one entry from its neighbours. Say how much such a person may know.",
    "Question": "Epsilon says how much one answer may tell about one entry. Move the slider and "
    "look how far simulated answers lie from the truth.",
    "Release": "A budget is for everything that is ever said about these data. Each release takes "
    "its part, and asking again for the same costs nothing.",
    "Account": "Whoever gets a record can verify it without the data: the noise is recomputed from "
    "the record alone.",
}


def _guide(workspace: Workspace) -> None:
    """The tutorial: why this step, and what there is to do in it."""
    question, chosen = workspace.question, workspace.chosen
    to_do: dict[str, list[tuple[str, Any]]] = {
        "Data": [
            ("Press “Use the demo data”, or open a private file.", workspace.source(PRIVATE)),
            ("Open a public file, of other people.", workspace.source(PUBLIC)),
            ("See that they were compared, and go on.", workspace.compared),
        ],
        "Beliefs": [("Take one of the three choices; “like these people” to begin with.", chosen)],
        "Question": [
            ("Choose what is asked, or keep the shares of time.", question.kind and chosen),
            ("Move epsilon until the answers are exact enough.", False),
        ],
        "Release": [
            ("Set a budget.", workspace.has_budget),
            ("Read what it costs, and press “Release”.", workspace.released),
            ("Download the record.", False),
        ],
        "Account": [("Press “Verify” beside a release.", False)],
    }
    with page_parts.card("Tutorial", _WHY[workspace.step], tint="pk-guide"):
        for words, done in to_do[workspace.step]:
            ui.label(f"{'✓' if done else '○'} {words}")
