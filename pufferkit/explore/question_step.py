"""Step 3: the question, epsilon, and the accuracy of the answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore import page_parts
from pufferkit.explore.calls import MECHANISMS
from pufferkit.explore.choices import FORMS, PageQuestion, arguments
from pufferkit.explore.workspace import EPSILONS, PRIVATE

if TYPE_CHECKING:
    from pufferkit.explore.workspace import Workspace

_LATER = "outlined dense debounce=600"


def draw(workspace: Workspace, go: Callable[[str], None]) -> None:
    """The question, epsilon with simulated releases, and every mechanism side by side."""
    if not workspace.chosen:
        with page_parts.card("Question", "Choose beliefs in the second step first."):
            page_parts.button("To the beliefs", partial(go, "Beliefs"), main=True, mark="to")
        return
    with page_parts.card("Question"):
        above = ui.element("div").classes("pk-stack")
    with page_parts.card("Epsilon and error"):
        epsilon = ui.element("div").classes("pk-stack")
        wrong = page_parts.problem()
        answer = _Answer(workspace)
    with page_parts.card("Every mechanism, and error against epsilon"):
        plans = _plans(workspace)

    async def changed() -> None:
        plans.refresh()
        async with page_parts.attempt(wrong):
            await answer.show()
        if wrong.text:
            answer.clear()

    with above:
        _form(workspace, changed)
    with epsilon:
        _epsilon(workspace, changed)

        async def chosen(event: Any) -> None:
            workspace.mechanism = event.value
            await changed()

        words = {name: f"{name}: {text}" for name, text in MECHANISMS.items()}
        page_parts.select("Mechanism", words, workspace.mechanism, chosen, mark="mechanism")
    page_parts.button("Next: release", partial(go, "Release"), main=True, mark="next")
    ui.timer(0, changed, once=True)
    ui.timer(0.5, workspace.prefetch, once=True)


def _form(workspace: Workspace, changed: Any) -> None:
    """Topic and question, and the arguments that the question has."""
    topics, question = workspace.topics, workspace.question

    async def about(event: Any) -> None:
        if event.value != workspace.question.topic:
            kinds = topics[event.value]
            which.set_options(kinds, value=next(iter(kinds)))

    async def chosen(event: Any) -> None:
        if event.value is not None and event.value != workspace.question.kind:
            workspace.question = PageQuestion.first(event.value, workspace.states)
            fields.refresh()
            await changed()

    async def lengthened(event: Any) -> None:
        if event.value and event.value >= 1:
            workspace.length = int(event.value)
            await changed()

    async def given(name: str, value: Any) -> None:
        if value is not None:
            workspace.question = workspace.question.with_value(name, value)
            await changed()

    @ui.refreshable
    def fields() -> None:
        asked = workspace.question
        for own in arguments(asked.kind):
            form, value = own.metadata["form"], dict(asked.given)[own.name]
            with ui.element("div").classes("pk-row"):
                _argument(own.name, form, value, workspace.states, given)

    with ui.element("div").classes("pk-row"):
        page_parts.select("About", list(topics), question.topic, about, mark="group")
        which = page_parts.select(
            "What is asked", topics[question.topic], question.kind, chosen, mark="kind"
        ).style("flex: 2 1 18rem")
        if workspace.source(PRIVATE) is None:
            ui.number(
                "Entries in the series", value=workspace.length, min=1, step=1, on_change=lengthened
            ).props(_LATER).mark("length")
    if "by time" not in topics:
        page_parts.soft("Questions about hours and days need a private file with times.")
    fields()


def _argument(name: str, form: str, value: Any, states: list[str], given: Any) -> None:
    """The controls of one argument, by its form."""
    label = FORMS[form].label

    async def of(event: Any) -> None:
        await given(name, tuple(state for state in states if state in event.value))

    async def plain(event: Any) -> None:
        await given(name, event.value)

    pairs: dict[Any, Any] = {}
    if form == "values":
        pairs.update(value)
        page_parts.soft(f"{label}:")
    elif form == "range":
        pairs.update(zip((f"{label} this", "and this"), value, strict=True))

    async def one_of(key: str, event: Any) -> None:
        if event.value is not None:
            pairs[key] = float(event.value)
            both = tuple(pairs.values() if form == "range" else pairs.items())
            await given(name, both)

    for key, number in pairs.items():
        field = ui.number(key, value=number, on_change=partial(one_of, key))
        field.props(_LATER).mark(f"{name}-{key}")
    if form == "states":
        page_parts.select(label, states, list(value), of, mark=name, multiple=True)
    elif form in ("share", "whole"):
        ui.number(label, value=value, min=0, on_change=plain).props(_LATER).mark(name)
    elif not pairs:
        ui.input(label, value=value, on_change=plain).props(_LATER).mark(name)


def _epsilon(workspace: Workspace, changed: Any) -> None:
    """A slider over usual values, and a field for any other."""

    def nearest() -> int:
        return min(range(len(EPSILONS)), key=lambda n: abs(EPSILONS[n] - workspace.epsilon))

    async def slid(event: Any) -> None:
        if int(event.value) != nearest():
            workspace.epsilon = EPSILONS[int(event.value)]
            field.set_value(workspace.epsilon)
            await changed()

    async def typed(event: Any) -> None:
        if event.value and event.value > 0 and event.value != workspace.epsilon:
            workspace.epsilon = float(event.value)
            slider.set_value(nearest())
            await changed()

    with ui.element("div").classes("pk-row").style("flex-wrap: nowrap"):
        with ui.element("div").style("flex: 1 1 10rem; padding: 0 .5rem"):
            slider = ui.slider(
                min=0, max=len(EPSILONS) - 1, step=1, value=nearest(), on_change=slid
            ).props('aria-label="Usual values of epsilon" snap markers')
            slider.mark("epsilon")
            with ui.element("div").classes("pk-ends"):
                ui.label("more private")
                ui.label("more accurate")
        field = ui.number("Epsilon", value=workspace.epsilon, min=0.001, on_change=typed)
        field.props("outlined dense debounce=300").style("flex: 0 0 6.5rem").mark("epsilon-field")


class _Answer:
    """The accuracy of the answer: text, and a picture that follows the slider."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._words = ui.label().style("font-weight: 600").mark("useful")
        self._drowned = ui.label().classes("pk-bad").props('role="alert"').mark("drowned")
        self._meaning = ui.label().classes("pk-words").mark("meaning")
        self._left = page_parts.soft("").mark("remaining")
        self._place = ui.element("div").style("width: 100%")
        self._whose = page_parts.soft("").mark("whose")

    def clear(self) -> None:
        """Show nothing: the current question was refused."""
        for words in (self._words, self._drowned, self._meaning, self._left, self._whose):
            words.set_text("")
        self._place.clear()

    async def show(self) -> None:
        """The answer for the current question and epsilon."""
        answer = await self._workspace.live()
        if self._place.is_deleted:
            return
        self._words.set_text(answer["text"])
        self._drowned.set_text(answer["warning"])
        self._meaning.set_text("\n".join(map(page_parts.plain_words, answer["meaning"])))
        self._place.clear()
        scale = f"Epsilon {answer['epsilon']:g}, noise scale {answer['scale']:.4g}."
        if answer["picture"] is None:
            self._whose.set_text(f"{scale} These beliefs name no chain to simulate data from.")
        else:
            with self._place:
                page_parts.picture(answer["picture"]).mark("simulated")
            whose = f"Simulated {answer['whose']}, never with those of the private file."
            self._whose.set_text(f"{scale} {whose}")
        left = await self._workspace.remaining()
        if not self._left.is_deleted:
            self._left.set_text(
                "No budget was set yet; that is the first thing in step 4."
                if left is None
                else f"{left:g} of the budget of {self._workspace.budget:g} remain."
            )


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
            return
        page_parts.said(planned["said"], (1, 3))
        if planned["picture"]:
            page_parts.heading("Error against epsilon")
            page_parts.picture(planned["picture"]).mark("errors")
        with page_parts.more("Why mechanisms do not apply"):
            for name, why in planned["reasons"]:
                page_parts.heading(name)
                ui.label(why).style("overflow-wrap: anywhere")

    shown()
    return shown
