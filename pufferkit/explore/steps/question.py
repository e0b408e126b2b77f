"""Step 3: what is asked, at which epsilon, and how good the answer will be."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import charts, parts
from pufferkit.explore.recipes import KINDS, Question
from pufferkit.explore.workspace import EPSILONS, PRIVATE

if TYPE_CHECKING:
    from pufferkit.explore.workspace import Workspace


def draw(workspace: Workspace, go: Callable[[str], None]) -> None:
    """The question, epsilon with live error bars, and every mechanism side by side."""
    if not workspace.chosen:
        with parts.card("Question and epsilon", "Choose beliefs in the second step first."):
            parts.button("To the beliefs", partial(go, "Beliefs"))
        return
    with parts.card("Question"):
        wrong = parts.problem()
        asked = ui.element("div").style("width: 100%")
    with parts.card("Epsilon and error"):
        epsilon = ui.element("div").style("width: 100%")
        answer = _Answer(workspace)
    with parts.card("Every mechanism, and error against epsilon"):
        plans = _plans(workspace)

    async def changed() -> None:
        plans.refresh()
        async with parts.attempt(wrong):
            await answer.show()

    with asked:
        _asked(workspace, changed)
    with epsilon:
        _epsilon(workspace, changed)
    parts.button("Next: release", partial(go, "Release"), main=True, mark="next")
    ui.timer(0, changed, once=True)
    ui.timer(0.5, workspace.prefetch, once=True)


def _asked(workspace: Workspace, changed: Any) -> None:
    """Kind of question, and the state or values that it needs."""
    states = workspace.states

    @ui.refreshable
    def about() -> None:
        question = workspace.question
        if question.kind == "count":
            ui.select(
                states, value=question.state, label="State to count", on_change=counted
            ).props("outlined dense").mark("count-state")
        if question.kind in ("mean", "total"):
            parts.soft("The value of each state:")
            with ui.element("div").classes("pk-row"):
                for name, value in question.values:
                    ui.number(name, value=value, on_change=partial(valued, name)).props(
                        "outlined dense"
                    )

    async def kind_of(event: Any) -> None:
        first = states[0] if event.value == "count" else ""
        numbered = event.value in ("mean", "total")
        values = tuple((name, float(n)) for n, name in enumerate(states)) if numbered else ()
        workspace.question = Question(event.value, first, values)
        about.refresh()
        await changed()

    async def counted(event: Any) -> None:
        workspace.question = Question("count", event.value)
        await changed()

    async def valued(name: str, event: Any) -> None:
        if event.value is None:
            return
        values = dict(workspace.question.values)
        values[name] = float(event.value)
        workspace.question = Question(workspace.question.kind, "", tuple(values.items()))
        await changed()

    async def lengthened(event: Any) -> None:
        if event.value and event.value >= 1:
            workspace.length = int(event.value)
            await changed()

    with ui.element("div").classes("pk-row"):
        ui.select(
            KINDS, value=workspace.question.kind, label="What is asked", on_change=kind_of
        ).props("outlined dense").mark("kind")
        if workspace.source(PRIVATE) is None:
            ui.number(
                "Entries in the series", value=workspace.length, min=1, step=1, on_change=lengthened
            ).props("outlined dense debounce=500").mark("length")
    about()


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
        ).props('aria-label="Epsilon" snap markers')
        slider.style("flex: 1 1 10rem").mark("epsilon")
        field = ui.number("Epsilon", value=workspace.epsilon, min=0.001, on_change=typed)
        field.props("outlined dense debounce=300").style("flex: 0 0 6.5rem").mark("epsilon-field")


class _Answer:
    """How good the answer will be: words, and a picture that follows the slider."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._words = ui.label().mark("useful")
        self._drowned = ui.label().classes("pk-bad").props('role="alert"').mark("drowned")
        self._odds = ui.element("div")
        self._left = parts.soft("").mark("remaining")
        self._place = ui.element("div").style("width: 100%")
        self._chart: ui.echart | None = None
        self._whose: Any = None

    async def show(self) -> None:
        """The answer for the question and epsilon as they are now."""
        told = await self._workspace.live()
        if self._place.is_deleted:
            return
        self._words.set_text(told["text"])
        self._drowned.set_text(told["warning"])
        self._odds.clear()
        with self._odds:
            for line in told["odds"]:
                ui.label(line)
        self._draw(told)
        left = await self._workspace.remaining()
        if left is not None and not self._left.is_deleted:
            self._left.set_text(f"{left:g} of the budget of {self._workspace.budget:g} remain.")

    def _draw(self, told: dict[str, Any]) -> None:
        simulated = told["simulated"]
        if simulated is None:
            self._place.clear()
            self._chart = None
            with self._place:
                parts.soft("This class names no chain that data could be made up from.")
            return
        half = simulated["half_width"]
        options = charts.bars_with_errors(
            simulated["labels"],
            simulated["exact"],
            [[value - half, value + half] for value in simulated["exact"]],
            {
                "simulated releases": [
                    [n, value] for answer in simulated["drawn"] for n, value in enumerate(answer)
                ]
            },
            told["what"],
            "answer without noise",
        )
        if self._chart is None:
            self._place.clear()
            with self._place:
                self._chart = parts.picture(options).mark("simulated")
                self._whose = parts.soft("")
        else:
            self._chart.options.clear()
            self._chart.options.update(options)
            self._chart.update()
        self._whose.set_text(
            f"Simulated on {simulated['whose']}, never on the private file. Epsilon "
            f"{told['epsilon']:g}, noise scale {told['scale']:.4g}."
        )


def _plans(workspace: Workspace) -> Any:
    wrong = parts.problem()

    @ui.refreshable
    def shown() -> None:
        async def plan() -> None:
            async with parts.attempt(wrong, start):
                await workspace.plan()

        planned = workspace.planned()
        if planned is None:
            parts.soft(
                f"Computed for epsilon {workspace.epsilon:g} on request; a long plan shows its "
                "progress above and can be stopped."
            )
            start = parts.button("Compare all mechanisms", plan, mark="plan")
        else:
            _plan(planned)
        rows = workspace.error_rows()
        if rows:
            what = "answer"
            parts.heading("Error against epsilon")
            parts.picture(charts.errors(rows, workspace.epsilon, what), "24rem")
            parts.soft("entry_dp, dashed, does not hide entries that others predict.")

    shown()
    return shown


def _plan(planned: dict[str, Any]) -> None:
    there = [row for row in planned["rows"] if row["applicable"]]
    parts.picture(charts.mechanisms(planned["rows"]), f"{5 + 2 * len(there):g}rem")
    parts.table(
        ["mechanism", "scale", "95% within", "tight", "hides entries"],
        [
            [
                row["mechanism"],
                f"{row['scale']:.4g}" if row["applicable"] else "-",
                f"{row['half_width_95']:.3g}" if row["applicable"] else "-",
                _percent(row["tightness"]),
                ("yes" if row["pufferfish"] else "NO") if row["applicable"] else "does not apply",
            ]
            for row in planned["rows"]
        ],
        numeric=(1, 2, 3),
    )
    parts.soft(
        "Tight: the loss that an attack proves at this scale, as a part of epsilon; at 100% no "
        "less noise would do."
    )
    parts.heading("What decides")
    for row in planned["rows"]:
        ui.label(f"{row['mechanism']}: {row['why']}").style("overflow-wrap: anywhere")


def _percent(share: float | None) -> str:
    from pufferkit.mechanisms.plan import percent  # noqa: PLC0415

    return percent(share)
