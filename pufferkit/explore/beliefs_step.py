"""Step 2: what an adversary may know: three plain choices, and others below them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import calls, page_parts
from pufferkit.explore.choices import read_model

if TYPE_CHECKING:
    from pufferkit.explore.workspace import Workspace

LIKE, ANY, BOUNDS = (
    "Like these people",
    "Any mixture of these people",
    "I only know bounds",
)
_PLAIN = {
    LIKE: (
        "Someone who knows how people like the public ones move from state to state.",
        "Every chain in the 95% region around their counts (fit “around”; influence curve).",
        calls.like_these,
    ),
    ANY: (
        "Someone who knows each of the public people, and which mixture of them is in force.",
        "Every mixture of their chains, another each time (fit “hull”; kernels that vary).",
        calls.any_of_these,
    ),
}
_OTHER = {
    "single chain": ("One chain, counted from all public people.", calls.single_chain),
    "any start": ("The same, also against those who know single entries.", calls.any_start),
}


def draw(workspace: Workspace, go: Callable[[str], None]) -> None:
    """The choices, those that were made, and how the chosen one stands the test."""
    boxes: dict[str, Any] = {}

    @ui.refreshable
    def below() -> None:
        for name, box in boxes.items():  # the way that is chosen stands out
            taken = workspace.chosen and workspace.beliefs[workspace.chosen]["name"] == name
            box.classes(add="pk-taken" if taken else "", remove="" if taken else "pk-taken")
        if workspace.choice is not None:
            _choice(workspace.choice)
        _stored(workspace, below.refresh)
        if workspace.chosen:
            page_parts.button("Next: question", partial(go, "Question"), main=True, mark="next")

    with page_parts.card(
        "What may an adversary know?",
        "The noise hides entries from somebody with this knowledge. It comes from the public "
        "people or from assumptions, never from the private file.",
    ):
        wrong = page_parts.problem()

        async def build(name: str, make: Any, *given: Any) -> None:
            async with page_parts.attempt(wrong):
                values = [one() if callable(one) else one for one in given]
                await workspace.build(name, make, *values)
                below.refresh()

        for name, (words, theorem, make) in _PLAIN.items():
            boxes[name] = _way(name, words, theorem)
            with boxes[name]:
                given = partial(getattr, workspace, "public")
                page_parts.button("Take this", partial(build, name, make, given), mark=name)
        boxes["bounds"] = _bounds(workspace, build)
        with page_parts.more(
            "Other ways: test all on people held out, one chain, a file, a matrix"
        ):
            _others(workspace, build, wrong)
    below()


def _way(name: str, words: str, theorem: str) -> Any:
    """A box with a choice in plain words, the theorem in small print."""
    box = ui.element("div").classes("pk-way")
    with box:
        with ui.element("h3").style("margin: 0"):
            ui.label(name)
        ui.label(words)
        ui.label(theorem).classes("pk-small")
    return box


def _states(workspace: Workspace, mark: str) -> tuple[Any, Callable[[], tuple[str, ...]]]:
    text = ", ".join(workspace.states) or "rest, active"
    field = page_parts.text_field("States", text, mark=mark)
    return field, lambda: tuple(n.strip() for n in field.value.split(",") if n.strip())


def _bounds(workspace: Workspace, build: Any) -> Any:
    """Two numbers in place of people: how long two states stay, or how well more of them mix."""
    theorem = (
        "Every binary chain in the range, any start; for more states every chain with at least "
        "this stationary probability and eigengap (approximate Markov quilts)."
    )
    box = _way(BOUNDS, "Someone who knows any behaviour within limits that you assume.", theorem)
    with box:
        with ui.element("div").classes("pk-row"):
            field, states = _states(workspace, "states")

        @ui.refreshable
        def numbers() -> None:
            labels = (
                (("Stays at least", 0.3), ("Stays at most", 0.9))
                if len(states()) == 2
                else (("Rarest state at least", 0.05), ("Eigengap at least", 0.3))
            )
            make = calls.bounded if len(states()) == 2 else calls.mixing
            with ui.element("div").classes("pk-row"):
                cells = [_number(label, value) for label, value in labels]
                given = [partial(_value, cell) for cell in cells]
                page_parts.button(
                    "Take this", partial(build, "bounds", make, states, *given), mark="bounds"
                )

        field.on_value_change(numbers.refresh)
        numbers()
    return box


def _others(workspace: Workspace, build: Any, wrong: ui.label) -> None:
    async def compare() -> None:
        async with page_parts.attempt(wrong, start):
            await workspace.compare()

    ui.label(
        "Fit every class to some of the public people, test each on the others, in turn, and take "
        "the widest promise that survives. It takes minutes; the page stays usable."
    )
    start = page_parts.button("Test all on people held out", compare, mark="compare")
    for name, (words, make) in _OTHER.items():
        with ui.element("div").classes("pk-row"):
            given = partial(getattr, workspace, "public")
            page_parts.button(name.capitalize(), partial(build, name, make, given), mark=name)
            page_parts.soft(words)
    with ui.element("div").classes("pk-row"):
        path = page_parts.text_field("Path of a model file", "", "model.json", mark="model-path")
        page_parts.button(
            "Take the file", partial(build, "file", read_model, lambda: path.value), mark="model"
        )
    page_parts.soft("A matrix: how likely each state is one step later, a line for each state.")
    with ui.element("div").classes("pk-row"):
        _, states = _states(workspace, "typed-states")
        rows = ui.textarea("Matrix", value="0.9 0.1\n0.4 0.6").props("outlined dense rows=3")
        rows.style("flex: 1 1 11rem").mark("matrix")
        starts = {"stationary": "in its stationary distribution", "any": "in any way"}
        start_of = page_parts.select("Starts", starts, "stationary", mark="start")
        given_rows = partial(_matrix, rows)
        page_parts.button(
            "Take the matrix",
            partial(build, "matrix", calls.by_hand, states, given_rows, lambda: start_of.value),
            mark="typed",
        )


def _stored(workspace: Workspace, refresh: Any) -> None:
    """The classes that were made, how exact the answer is under each, and what one means."""
    if not workspace.chosen:
        return
    with page_parts.card("Your choice"):
        wrong = page_parts.problem()
        names = {path: model["name"] for path, model in workspace.beliefs.items()}

        def choose(event: Any) -> None:
            workspace.choose(event.value)
            refresh()

        taken = ui.radio(names, value=workspace.chosen, on_change=choose)
        taken.props('dense aria-label="Beliefs"').mark("shelf")
        page_parts.soft(
            f"Under each: {workspace.question.words.lower()}, epsilon {workspace.epsilon:g}."
        )
        model = workspace.beliefs[workspace.chosen]
        page_parts.heading(f"What “{model['name']}” means")
        for line in (model["description"], model["promise"]):
            ui.label(page_parts.plain_words(line))
        for caveat in model["caveats"]:
            page_parts.soft(page_parts.plain_words(caveat))

        async def price() -> None:
            async with page_parts.attempt(wrong):
                words = await workspace.noise()
                if not taken.is_deleted:
                    taken.set_options({path: f"{names[path]}: {words[path]}" for path in names})

        ui.timer(0, price, once=True)
        _tested(workspace)


def _tested(workspace: Workspace) -> None:
    """Test the chosen class on public people."""
    wrong = page_parts.problem()

    async def check() -> None:
        async with page_parts.attempt(wrong, start):
            await workspace.check()

    with ui.element("div").classes("pk-row"):
        start = page_parts.button("Test it on the last three public people", check, mark="check")
    report = workspace.checks.get(workspace.chosen)
    if report is not None:
        page_parts.said(report).mark("verdict")


def _choice(choice: dict[str, Any]) -> None:
    with page_parts.card("Tested on people held out"):
        if choice["picture"]:
            page_parts.picture(choice["picture"])
        page_parts.said(choice["said"], (3,)).mark("recommended")


def _number(label: str, value: float) -> ui.number:
    made = ui.number(label, value=value, min=0, max=1, step=0.01)
    return made.props("outlined dense").mark(label)


def _value(field: ui.number) -> float:
    if field.value is None:
        raise ValueError(f"{field.props['label'].lower()}: type a number between 0 and 1")
    return float(field.value)


def _matrix(field: ui.textarea) -> tuple[tuple[float, ...], ...]:
    try:
        lines = [line.replace(",", " ").split() for line in field.value.splitlines()]
        return tuple(tuple(float(cell) for cell in line) for line in lines if line)
    except ValueError:
        raise ValueError("matrix: type numbers between 0 and 1, a line for each state") from None
