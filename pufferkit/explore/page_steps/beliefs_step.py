"""Step 2: what an adversary may know, tested on people held out, and the noise it needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import page_charts, page_parts, tasks
from pufferkit.explore.workspace import PUBLIC

if TYPE_CHECKING:
    from pufferkit.explore.workspace import Workspace

_MOST_TYPED = 8


def draw(workspace: Workspace, go: Callable[[str], None]) -> None:
    """Where beliefs come from, the shelf of classes, and how the chosen one stands the test."""

    @ui.refreshable
    def shelf() -> None:
        _shelf(workspace, shelf.refresh)
        if workspace.chosen:
            _tested(workspace)
            page_parts.button("Next: question", partial(go, "Question"), main=True, mark="next")

    _sources(workspace, shelf.refresh)
    if workspace.choice is not None:
        _choice(workspace.choice)
    shelf()


def _sources(workspace: Workspace, refresh: Any) -> None:
    with page_parts.card(
        "Where beliefs come from",
        "An adversary may know how such series evolve. The noise is calibrated for that "
        "knowledge, so it must come from public people or from assumptions, never from the "
        "private file.",
    ):
        wrong = page_parts.problem()

        async def build(task: Any, *given: Any) -> None:
            async with page_parts.attempt(wrong):
                await workspace.build(task, *(arg() if callable(arg) else arg for arg in given))
                refresh()

        with ui.tabs().props('no-caps dense align="left"') as ways:
            counted = ui.tab("Public file")
            offered = ui.tab("On offer")
            typed = ui.tab("By hand")
        with ui.tab_panels(ways, value=counted if workspace.source(PUBLIC) else offered).style(
            "background: transparent; width: 100%"
        ):
            with ui.tab_panel(counted).style("padding: .5rem 0"):
                _from_public(workspace, build, wrong)
            with ui.tab_panel(offered).style("padding: .5rem 0"):
                _offered(workspace, build)
            with ui.tab_panel(typed).style("padding: .5rem 0"):
                _typed(workspace, build)


def _from_public(workspace: Workspace, build: Any, wrong: ui.label) -> None:
    source = workspace.source(PUBLIC)
    if source is None:
        page_parts.soft("Open and read a public file in the first step.")
        return

    async def compare() -> None:
        async with page_parts.attempt(wrong, start):
            await workspace.compare()

    ui.label(
        "Build every class on some of the public people, test each on the others, and take the one "
        "with the least noise that they do not refute. It takes minutes; the page stays usable."
    )
    start = page_parts.button(
        "Test all classes on people held out", compare, main=True, mark="compare"
    )
    page_parts.heading("Or count one class")
    for kind, words in tasks.BUILT.items():
        with ui.element("div").classes("pk-row"):
            page_parts.button(
                kind.capitalize(), partial(build, tasks.counted, kind, source), mark=kind
            )
            page_parts.soft(words).style("flex: 1 1 14rem")


def _offered(workspace: Workspace, build: Any) -> None:
    """Classes that need numbers, not data."""
    with ui.element("div").classes("pk-row"):
        names = ui.input("States", value=", ".join(workspace.states) or "rest, active")
        names.props("outlined dense").mark("states")

    def labels() -> Any:
        return _names(names.value)

    def of_numbers(name: str, words: str, mark: str, fields: Any, made: Any) -> None:
        page_parts.heading(name)
        page_parts.soft(words)
        with ui.element("div").classes("pk-row"):
            numbers = [partial(_value, _number(*field)) for field in fields]
            page_parts.button("Add", made(*numbers), mark=mark)

    of_numbers(
        "Binary chains",
        "Every chain on two states that stays with a probability in this range; any start.",
        "binary",
        (("Stays at least", 0.3, "low"), ("Stays at most", 0.9, "high")),
        lambda low, high: partial(build, tasks.bounded, low, high, labels),
    )
    of_numbers(
        "Chains that mix",
        "Every chain with at least this probability of each state and at least this eigengap.",
        "mixing",
        (("Rarest state", 0.05, "pi-min"), ("Eigengap", 0.3, "gap")),
        lambda rare, gap: partial(build, tasks.mixing, labels, rare, gap),
    )
    page_parts.heading("A model file")
    with ui.element("div").classes("pk-row"):
        path = ui.input("Path of a JSON model").props("outlined dense").mark("model-path")
        page_parts.button("Add", partial(build, tasks.from_file, lambda: path.value), mark="model")


def _typed(workspace: Workspace, build: Any) -> None:
    """A matrix by hand."""
    with ui.element("div").classes("pk-row"):
        names = ui.input("States", value=", ".join(workspace.states) or "rest, active")
        names.props("outlined dense").mark("typed-states")
        start = ui.select(
            {"stationary": "in its stationary distribution", "any": "in any way"},
            value="stationary",
            label="Starts",
        ).props("outlined dense")

    cells: list[list[Any]] = []

    @ui.refreshable
    def matrix() -> None:
        cells.clear()
        states = _names(names.value)
        if not 2 <= len(states) <= _MOST_TYPED:
            page_parts.soft(f"Name 2 to {_MOST_TYPED} states, separated by commas.")
            return
        stay, move = first_row(len(states))
        for before in states:
            with ui.element("div").classes("pk-row pk-matrix"):
                ui.label(f"after {before}").style("flex: 0 0 7rem")
                row = []
                for after in states:
                    likely = stay if after == before else move
                    row.append(_number(after, likely, f"cell-{before}-{after}"))
                cells.append(row)

    names.on_value_change(matrix.refresh)
    page_parts.soft("How likely each state is one step later; every line adds up to 1.")
    matrix()
    page_parts.button(
        "Add",
        partial(
            build,
            tasks.by_hand,
            lambda: tuple(tuple(_value(cell) for cell in row) for row in cells),
            lambda: _names(names.value),
            lambda: start.value,
        ),
        mark="typed",
    )


def first_row(states: int) -> tuple[float, float]:
    """Probabilities to stay and to move to each other state, with two digits, that add up to 1."""
    move = 20 // (states - 1) / 100
    return round(1 - move * (states - 1), 2), move


def _shelf(workspace: Workspace, refresh: Any) -> None:
    if not workspace.beliefs:
        with page_parts.card("Your classes"):
            page_parts.soft("None yet. Count one from the public file, or say one, above.")
        return
    with page_parts.card("Your classes"):
        page_parts.soft(
            f"{workspace.question.words}, at epsilon {workspace.epsilon:g}, under each:"
        )
        wrong = page_parts.problem()
        place = ui.element("div").classes("pk-stack")
        with place:
            page_parts.soft("Working out the noise …")
        known = {path: model["name"] for path, model in workspace.beliefs.items()}

        def choose(event: Any) -> None:
            workspace.choose(event.value)
            refresh()

        page_parts.heading("Take")
        ui.radio(known, value=workspace.chosen, on_change=choose).props(
            'dense inline aria-label="Class of beliefs"'
        ).mark("shelf")
        model = workspace.beliefs[workspace.chosen]
        page_parts.heading(f"What “{model['name']}” means")
        ui.label(model["description"])
        ui.label(model["promise"]).mark("promise")
        for caveat in model["caveats"]:
            page_parts.soft(caveat)

        async def price() -> None:
            async with page_parts.attempt(wrong):
                rows = await workspace.noise()
                if not place.is_deleted:
                    place.clear()
                    with place:
                        _noise(rows, known, workspace.chosen)

        ui.timer(0, price, once=True)


def _noise(rows: list[dict[str, Any]], known: dict[str, str], chosen: str) -> None:
    """The noise under each class."""
    there = [{**row, "name": known[row["model"]]} for row in rows if row["scale"] is not None]
    if there:
        high = f"{5 + 2 * len(there):g}rem"
        page_parts.picture(page_charts.classes(there, chosen, "answers"), high).mark("classes")
    with page_parts.more("The numbers"):
        page_parts.table(
            ["class", "noise scale", "95% within"],
            [[row["name"], f"{row['scale']:.4g}", f"{row['half_width']:.3g}"] for row in there],
            numeric=(1, 2),
        )
    for row in rows:
        if row["scale"] is None:
            ui.label(f"{known[row['model']]}: {row['why']}").classes("pk-bad")


def _tested(workspace: Workspace) -> None:
    """Test the chosen class on public people."""
    with page_parts.card(
        "Does it cover held-out people?",
        "The last three public people are compared with the class. A class counted from all of "
        "them has seen them; the test of all classes above holds people out for good.",
    ):
        if workspace.source(PUBLIC) is None:
            page_parts.soft("This needs a public file: open one in the first step.")
            return
        wrong = page_parts.problem()

        async def check() -> None:
            async with page_parts.attempt(wrong, start):
                await workspace.check()

        start = page_parts.button("Check it", check, mark="check")
        report = workspace.checks.get(workspace.chosen)
        if report is not None:
            _checked(report)


_MARKS = {True: "yes", False: "NO", None: "not decided"}


def _checked(report: dict[str, Any]) -> None:
    ui.label(f"Verdict: {report['verdict']}").style("font-weight: 600").classes(
        "" if report["passed"] else "pk-bad"
    ).mark("verdict")
    if report["budget"] is not None:
        row = {"name": "this class", "budget": report["budget"], "passes": report["covers"]}
        drawn = page_charts.influence([row], report["point"], None)
        page_parts.picture(drawn, "9rem").mark("check-influence")
        page_parts.soft(report["influence"])
    tested = [row for row in report["rows"] if row["p_value"] is not None]
    if tested:
        high = f"{6 + 2.6 * len(tested):g}rem"
        page_parts.picture(page_charts.p_values(tested, report["level"]), high).mark("check-tests")
    with page_parts.more("Every test in words"):
        for row in report["rows"]:
            page_parts.heading(f"{_MARKS[row['passed']]}: {row['name']}")
            ui.label(row["text"])


def _choice(choice: dict[str, Any]) -> None:
    with page_parts.card(
        "Tested on people held out",
        f"Built on {choice['public']}, tested on {choice['held_out']}. Bars: entries that the "
        "noise of each class allows one entry to give away. Solid line: what people show; dashed "
        "line: at least. Dashed bars are refuted.",
    ):
        best = choice["recommended"]
        ui.label(
            f"Recommended: {best}" if best else "None of these is recommended; people refute them."
        ).style("font-weight: 600").mark("recommended")
        budgets = [row for row in choice["rows"] if row["budget"] is not None]
        if budgets:
            high = f"{6 + 2.2 * len(budgets):g}rem"
            shown = page_charts.influence(budgets, choice["point"], choice["lower"])
            page_parts.picture(shown, high).mark("choice")
        page_parts.table(
            ["class", "covers?", "noise", "promise"],
            [[row["name"], row["covers"], row["noise"], row["promise"]] for row in choice["rows"]],
            numeric=(2,),
        )
        for line in choice["advice"]:
            page_parts.soft(line)


def _number(label: str, value: float, mark: str) -> ui.number:
    return ui.number(label, value=value, min=0, max=1, step=0.01).props("outlined dense").mark(mark)


def _value(field: ui.number) -> float:
    if field.value is None:
        raise ValueError(f"{field.props['label'].lower()}: type a number between 0 and 1")
    return float(field.value)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
