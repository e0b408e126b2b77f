"""Step 3: the question, epsilon, and the accuracy of the answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import page_charts, page_parts
from pufferkit.explore.page_steps import question_form
from pufferkit.explore.release_tasks import MECHANISMS
from pufferkit.explore.workspace import EPSILONS
from pufferkit.mechanisms.plan import percent

if TYPE_CHECKING:
    from pufferkit.explore.workspace import Workspace


def draw(workspace: Workspace, go: Callable[[str], None]) -> None:
    """The question, epsilon with live error bars, and every mechanism side by side."""
    if not workspace.chosen:
        with page_parts.card("Question and epsilon", "Choose beliefs in the second step first."):
            page_parts.button(
                "To the beliefs", partial(go, "Beliefs"), main=True, mark="to-beliefs"
            )
        return
    with page_parts.card("Question"):
        above = ui.element("div").classes("pk-stack")
    with page_parts.card("Epsilon and error"):
        epsilon = ui.element("div").classes("pk-stack")
        wrong = page_parts.problem()
        answer = _AnswerCard(workspace)
    with page_parts.card("Every mechanism, and error against epsilon"):
        plans = _plans(workspace)

    async def changed() -> None:
        plans.refresh()
        async with page_parts.attempt(wrong):
            await answer.show()
        if wrong.text:
            answer.clear()

    with above:
        question_form.draw(workspace, changed)
    with epsilon:
        _epsilon(workspace, changed)
        _mechanism(workspace, changed)
    page_parts.button("Next: release", partial(go, "Release"), main=True, mark="next")
    ui.timer(0, changed, once=True)
    ui.timer(0.5, workspace.prefetch, once=True)


def _mechanism(workspace: Workspace, changed: Any) -> None:
    """Which mechanism adds the noise."""

    async def chosen(event: Any) -> None:
        workspace.mechanism = event.value
        await changed()

    words = {name: f"{name}: {text}" for name, text in MECHANISMS.items()}
    page_parts.select("Mechanism", words, workspace.mechanism, chosen, mark="mechanism")


def _epsilon(workspace: Workspace, changed: Any) -> None:
    """A slider over usual values, and a field for any other."""
    nearest = min(range(len(EPSILONS)), key=lambda n: abs(EPSILONS[n] - workspace.epsilon))
    moving = {"own": False}

    async def slid(event: Any) -> None:
        if not moving["own"]:
            workspace.epsilon = EPSILONS[int(event.value)]
            field.set_value(workspace.epsilon)
            await changed()

    async def typed(event: Any) -> None:
        if event.value and event.value > 0 and event.value != workspace.epsilon:
            workspace.epsilon = float(event.value)
            moving["own"] = True
            slider.set_value(
                min(range(len(EPSILONS)), key=lambda n: abs(EPSILONS[n] - workspace.epsilon))
            )
            moving["own"] = False
            await changed()

    with ui.element("div").classes("pk-row").style("flex-wrap: nowrap"):
        slider = ui.slider(
            min=0, max=len(EPSILONS) - 1, step=1, value=nearest, on_change=slid
        ).props('aria-label="Usual values of epsilon" snap markers')
        slider.style("flex: 1 1 10rem").mark("epsilon")
        field = ui.number("Epsilon", value=workspace.epsilon, min=0.001, on_change=typed)
        field.props("outlined dense debounce=300").style("flex: 0 0 6.5rem").mark("epsilon-field")


class _AnswerCard:
    """The accuracy of the answer: text, and a chart that follows the slider."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._words = ui.label().style("font-weight: 600").mark("useful")
        self._drowned = ui.label().classes("pk-bad").props('role="alert"').mark("drowned")
        self._odds = ui.label().mark("odds")
        self._left = page_parts.soft("").mark("remaining")
        self._place = ui.element("div").style("width: 100%")
        self._whose = page_parts.soft("").mark("whose")
        self._chart: ui.echart | None = None
        self._high = ""

    def clear(self) -> None:
        """Show nothing: the current question was refused."""
        for words in (self._words, self._drowned, self._odds, self._left, self._whose):
            words.set_text("")
        self._place.clear()
        self._chart = None

    async def show(self) -> None:
        """The answer for the current question and epsilon."""
        errors = await self._workspace.live()
        if self._place.is_deleted:
            return
        self._words.set_text(errors["text"])
        self._drowned.set_text(errors["warning"])
        self._odds.set_text(". ".join(errors["odds"]))
        self._draw(errors)
        left = await self._workspace.remaining()
        if not self._left.is_deleted:
            self._left.set_text(
                "No budget was set yet; that is the first thing in step 4."
                if left is None
                else f"{left:g} of the budget of {self._workspace.budget:g} remain."
            )

    def _draw(self, errors: dict[str, Any]) -> None:
        simulated = errors["simulated"]
        scale = f"Epsilon {errors['epsilon']:g}, noise scale {errors['scale']:.4g}."
        if simulated is None:
            self._place.clear()
            self._chart = None
            self._whose.set_text(f"{scale} The class names no chain to simulate data from.")
            return
        options, high = simulation(simulated, simulated["what"] or errors["what"])
        if self._chart is None or high != self._high:
            self._place.clear()
            with self._place:
                self._chart = page_parts.picture(options, high).mark("simulated")
            self._high = high
        else:
            self._chart.options.clear()
            self._chart.options.update(options)
            self._chart.update()
        self._whose.set_text(
            f"{scale} Simulated on {simulated['whose']}, never on the private file."
        )


def simulation(simulated: dict[str, Any], what: str) -> tuple[dict[str, Any], str]:
    """A chart of simulated releases, and its height."""
    exact, drawn, grid = simulated["exact"], simulated["drawn"], simulated["grid"]
    if grid is not None:
        both = {"without noise": exact, "one simulated release": drawn[0]}
        return page_charts.tables(grid, both, what)
    half = simulated["half_width"]
    bars = exact or drawn[0]
    ranges = simulated["interval"] if exact is None else [[v - half, v + half] for v in exact]
    name = "one simulated release" if exact is None else "answer without noise"
    points = [[n, value] for answer in drawn for n, value in enumerate(answer)]
    options = page_charts.bars_with_errors(
        simulated["labels"], bars, ranges, {"simulated releases": points}, what, name
    )
    return options, ""


def _plans(workspace: Workspace) -> Any:
    wrong = page_parts.problem()

    @ui.refreshable
    def shown() -> None:
        async def plan() -> None:
            async with page_parts.attempt(wrong, start):
                await workspace.plan()

        planned = workspace.planned()
        if planned is None:
            page_parts.soft(
                f"Computed for epsilon {workspace.epsilon:g} on request; a long plan shows its "
                "progress above and can be stopped."
            )
            start = page_parts.button("Compare all mechanisms", plan, mark="plan")
        else:
            _plan(planned)
        rows = workspace.error_rows()
        if rows:
            page_parts.heading("Error against epsilon")
            page_parts.picture(
                page_charts.errors(rows, workspace.epsilon, "answers"), "24rem"
            ).mark("errors")
            page_parts.soft(
                "entry_dp, dashed, does not hide entries that others predict. A line ends where "
                "95% of the answers would be exact."
            )

    shown()
    return shown


def _plan(planned: dict[str, Any]) -> None:
    there = [row for row in planned["rows"] if row["applicable"]]
    high = f"{5.5 + 2 * len(there):g}rem"
    page_parts.picture(page_charts.mechanisms(planned["rows"], "answers"), high).mark("mechanisms")
    page_parts.soft(
        "Dashed: does not hide entries that others predict. Tight: the loss that an attack proves "
        "at this scale, as a part of epsilon, where it is known; at 100% no less noise would do."
    )
    page_parts.table(
        ["mechanism", "scale", "95% within", "tight", "hides entries"],
        [
            [
                row["mechanism"],
                f"{row['scale']:.4g}",
                f"{row['half_width_95']:.3g}",
                percent(row["tightness"]),
                "yes" if row["pufferfish"] else "NO",
            ]
            for row in there
        ],
        numeric=(1, 2, 3),
    )
    for line in planned["remarks"]:
        page_parts.soft(line)
    with page_parts.more("What decides, and which mechanisms do not apply"):
        for row in planned["rows"]:
            page_parts.heading(
                row["mechanism"] if row["applicable"] else f"{row['mechanism']} (not)"
            )
            ui.label(row["why"]).style("overflow-wrap: anywhere")
