"""The questions of the page: those of the command line but `linear`, by the same names.

A question creates the query, knows how an answer is derived from its release, and writes itself as
Python and as options of a command.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import Field, dataclass, fields
from typing import TYPE_CHECKING, Any

import pufferkit as pk
from pufferkit.data import queries
from pufferkit.data.durations import number_or_text
from pufferkit.data.query import NAMES, Question, question

if TYPE_CHECKING:
    from pufferkit import ChainClass, Derived, Query, Release


def arguments(kind: str) -> Iterator[Field[Any]]:
    """The arguments of a question that the page asks for."""
    made = NAMES[kind]
    for own in fields(made):
        if "form" in own.metadata and own.name not in made.names[kind].fixed:
            yield own


def takes(kind: str, form: str) -> bool:
    """Whether a question has an argument of this form."""
    return any(own.metadata["form"] == form for own in arguments(kind))


ON_PAGE = [name for name in NAMES if not takes(name, "weights")]
"""The questions of the page; weights come from a file, and with one number a state are a total."""

KINDS = {name: NAMES[name].names[name].words for name in ON_PAGE}
"""All questions in words, by their names on the command line."""

TOPICS = {name: NAMES[name].names[name].topic for name in ON_PAGE}
"""What each is about."""

GROUPS = {
    topic: {
        name: KINDS[name]
        for name in sorted(ON_PAGE, key=lambda name: NAMES[name].per != "entries")
        if TOPICS[name] == topic
    }
    for topic in queries.TOPICS
}
"""The same by topic, shares and means first: they do not depend on the length."""

CLOCKED = tuple(name for name in ON_PAGE if NAMES[name].clocked)
"""About hours and days, so that entries need times."""

VALUED = tuple(name for name in ON_PAGE if takes(name, "values"))
"""About values of states."""


@dataclass(frozen=True)
class QueryAndReader:
    """A query, and how the answer is derived from its release; ``None``: the release itself."""

    query: Query
    read: Callable[[Release], Derived] | None = None


@dataclass(frozen=True)
class PageQuestion:
    """A question; only the fields that its kind needs are used.

    ``of`` are names of states, ``values`` numbers by names of states, ``at`` the share below a
    quantile, ``at_least`` a time like 30m, ``between`` hours like 22:00-06:00, ``low`` and ``high``
    the range of a variance, ``top`` a number of states.
    """

    kind: str = "frequencies"
    of: tuple[str, ...] = ()
    values: tuple[tuple[str, float], ...] = ()
    at: float = 0.5
    at_least: str = "30m"
    between: str = "00:00-12:00"
    low: float = 0.0
    high: float = 1.0
    top: int = 1

    @classmethod
    def first(cls, kind: str, states: Sequence[str]) -> PageQuestion:
        """A question of a kind as the page first shows it."""
        of = tuple(states[-1:]) if takes(kind, "states") else ()
        if kind not in VALUED:
            return cls(kind, of)
        values = usual_values(states)
        return cls(
            kind, of, tuple(zip(states, values, strict=True)), low=values[0], high=max(values)
        )

    @property
    def ranged(self) -> bool:
        """Whether it needs a declared range; others may do without, and the page leaves it out."""
        return NAMES[self.kind].replaced

    @property
    def group(self) -> str:
        """What it is about."""
        return NAMES[self.kind].names[self.kind].topic

    @property
    def words(self) -> str:
        """The question as the beginning of a sentence."""
        sentence = NAMES[self.kind].names[self.kind].words.capitalize()
        some = " or ".join(f"“{name}”" for name in self.of)
        if takes(self.kind, "share"):
            sentence += f", {self.at:g} of the entries below it"
        sentence = sentence.replace("two hours of the day", self.between.replace("-", " and "))
        sentence = sentence.replace("enough time", f"{self.at_least} or more")
        return sentence.replace("one state", some).replace("some states", some)

    def question(self, states: Sequence[Hashable]) -> Question:
        """What is asked, with labels of states for their names."""
        if self.kind not in NAMES or takes(self.kind, "weights"):
            raise ValueError(f"question: {self.kind!r} is unknown; known are {', '.join(KINDS)}")
        given: dict[str, Any] = {}
        for own in arguments(self.kind):
            form = own.metadata["form"]
            if form != "range" or self.ranged:
                given[own.name] = self._argument(form, states)
        return question(self.kind, **given)

    def _argument(self, form: str, states: Sequence[Hashable]) -> Any:
        if form == "states":
            if not self.of:
                raise ValueError("states: choose at least one that the question is about")
            return tuple(_label(name, states) for name in self.of)
        if form == "values":
            return self._valued(states)
        return {
            "range": (self.low, self.high),
            "share": self.at,
            "whole": self.top,
            "time": number_or_text(self.at_least),
            "hours": self.between,
        }[form]

    def over(self, states: Sequence[Hashable], lengths: Any) -> Query:
        """The query, about a series or lengths; of a quantile the histogram behind it."""
        return self._numbers(states).bind(states, lengths)

    def like(self, states: Sequence[Hashable], length: int) -> Query:
        """A query of the same sensitivity, for a length alone."""
        if self.kind not in CLOCKED:
            return self.over(states, [length])
        return self.question(states).whole(states, length)

    def _numbers(self, states: Sequence[Hashable]) -> Question:
        return self.question(states).in_numbers()

    def asked(self, beliefs: ChainClass, lengths: Any, epsilon: float) -> QueryAndReader:
        """The query for these beliefs, and how its release is read."""
        states, asked = beliefs.states, self.question(beliefs.states)
        if isinstance(asked, queries.Quantile):
            plan = pk.plan_quantile(beliefs, self.at, self._valued(states), lengths, epsilon)
            return QueryAndReader(plan.query, plan.answer)
        what, given = asked.reading() or ("", {})

        def read(release: Release) -> Derived:
            return release.derive(what, **given)

        return QueryAndReader(asked.bind(states, lengths), read if asked.replaced else None)

    def _valued(self, states: Sequence[Hashable]) -> dict[Hashable, float]:
        given = {_label(name, states): value for name, value in self.values}
        missing = [str(state) for state in states if state not in given]
        if missing:
            raise ValueError(f"values: none for {', '.join(missing)}; give 0 for no contribution")
        return given

    def python(self, states: Sequence[Hashable], epsilon: float) -> tuple[list[str], list[str]]:
        """Lines that make the query, and lines that read its release."""
        asked = self.question(states)
        if isinstance(asked, queries.Quantile):
            plan = f"plan = pk.plan_quantile(beliefs, {self.at!r}, {self._valued(states)!r}, data, "
            return [f"{plan}{epsilon!r})", "query = plan.query"], ["print(plan.answer(release))"]
        made = [f"query = pk.{asked.python}.bind(beliefs.states, data)"]
        if asked.python.startswith("question("):
            made = [
                "from pufferkit.data.query import question",
                f"query = {asked.python}.bind(beliefs.states, data)",
            ]
        if not asked.replaced:
            return made, []
        what, given = asked.reading() or ("", {})
        how = "".join(f", {name}={value!r}" for name, value in given.items())
        return made, [f"print(release.derive({what!r}{how}))"]

    def command(self) -> list[str]:
        """The same as options of a command."""
        options = ["--query", self.kind]
        for own in arguments(self.kind):
            form, flag = own.metadata["form"], f"--{own.metadata['option'].replace('_', '-')}"
            if form == "range" and not self.ranged:
                continue
            _listed([name for name, _ in self.values])
            options += [
                flag,
                {
                    "states": _listed(self.of),
                    "values": ",".join(f"{name}={value!r}" for name, value in self.values),
                    "range": f"{self.low!r},{self.high!r}",
                    "share": repr(self.at),
                    "whole": str(self.top),
                    "time": self.at_least,
                    "hours": self.between,
                }[form],
            ]
        return options


def usual_values(states: Sequence[str]) -> list[float]:
    """Midpoints of levels where states are levels of numbers, their indices otherwise."""
    levels = pk.Bins.of_names(states)
    if levels is not None:
        try:
            return [float(middle) for middle in levels.middles]
        except ValueError:
            pass  # an open level of a single cut has no middle
    return [float(n) for n in range(len(states))]


def _listed(names: Sequence[str]) -> str:
    """Names separated by commas; a single name may contain a comma."""
    if len(names) > 1 and any("," in name for name in names):
        raise ValueError("the command line takes no list of states whose names contain commas")
    return ",".join(names)


def _label(name: str, states: Sequence[Hashable]) -> Hashable:
    for state in states:
        if str(state) == name:
            return state
    known = ", ".join(str(state) for state in states)
    raise ValueError(f"state: {name!r} is not one of the states; they are {known}")
