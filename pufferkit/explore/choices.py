"""The user's choices as values: each creates an object of the library and writes itself as code.

Page, Python code and command come from the same choices, so they do the same. The form of a
question comes from the fields of its dataclass in `pufferkit.data.queries`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pufferkit as pk
from pufferkit.data import queries
from pufferkit.data.durations import number_or_text
from pufferkit.data.query import NAMES, Question, question

if TYPE_CHECKING:
    from pufferkit import Bins, ChainClass, Derived, Query, Release

# --- files --------------------------------------------------------------------------------------


class Control(NamedTuple):
    """A control of the page for an option of the reader, and the refusals that need it."""

    label: str
    like: str
    needed: str
    choices: Mapping[str, str] | None = None


OPTIONS = {
    "every": Control(
        "Time between entries", "5m", r"every|same time as|earlier than|evenly spaced"
    ),
    "independent_after": Control(
        "Rows further apart are independent", "never, or 3h", "independent_after"
    ),
    "end": Control("Column of ends, if rows are intervals", "End time", r"\bend[:=]|intervals"),
    "timezone": Control("Time zone", "Europe/Paris", "timezone|times_in|an hour that occurs twice"),
    "times_in": Control("Clock of the file, if another", "UTC or +01:00", "times_in"),
    "repeated_hour": Control(
        "The hour that occurs twice",
        "",
        r"repeated_hour|same time as|earlier than",
        {"": "not treated", "shift": "second one an hour later", "keep first": "second one unread"},
    ),
    "dates": Control(
        "Dates such as 03/04/2024",
        "",
        r"dates=",
        {"": "as detected", "day first": "the day first", "month first": "the month first"},
    ),
    "decimal": Control(
        "Decimal sign", "", r"decimal=", {"": "as detected", ".": "point", ",": "comma"}
    ),
    "missing": Control("Not observed is written as", "NA", r"missing="),
    "separator": Control("Between cells", ";", r"separator="),
}
"""What can be said about a file, beside its columns."""

_TEXT = ("dates", "decimal", "missing", "separator")


@dataclass(frozen=True)
class DataFile:
    """A file, the roles of its columns, and the `OPTIONS`. Empty text means not given."""

    path: str
    state: str
    time: str = ""
    subject: str = ""
    cuts: str = ""
    unit: str = ""
    every: str = ""
    independent_after: str = ""
    end: str = ""
    timezone: str = ""
    times_in: str = ""
    repeated_hour: str = ""
    dates: str = ""
    decimal: str = ""
    missing: str = ""
    separator: str = ""

    @property
    def bins(self) -> Bins | None:
        """The levels of numbers, from their cut points."""
        if not self.cuts:
            return None
        return pk.Bins([_number("cuts", cut) for cut in self.cuts.split(",")], unit=self.unit)

    @property
    def given(self) -> dict[str, Any]:
        """The options of the reader that were given."""
        times = tuple(part.strip() for part in self.time.split(","))
        said: dict[str, Any] = {"time": times if len(times) > 1 else self.time, "bins": self.bins}
        for name in OPTIONS:
            text = getattr(self, name)
            durations = name in ("every", "independent_after") and text
            said[name] = number_or_text(text) if durations else text
        form = {name: said.pop(name) for name in _TEXT}
        if any(form.values()):
            form["missing"] = (form["missing"],) if form["missing"] else None
            said["text"] = pk.TextFormat(**{name: value for name, value in form.items() if value})
        return {name: value for name, value in said.items() if value not in ("", None)}

    def python(self) -> str:
        """The call that reads the series."""
        cuts = f"[{', '.join(cut.strip() for cut in self.cuts.split(','))}]"
        lines = [repr(self.path), f"state={self.state!r}"]
        for name, value in self.given.items():
            text = repr(value)
            if name == "bins":
                text = f"pk.Bins({cuts}{f', unit={self.unit!r}' if self.unit else ''})"
            if name == "text":
                own = [f.name for f in fields(value) if getattr(value, f.name) != f.default]
                text = ", ".join(f"{part}={getattr(value, part)!r}" for part in own)
                text = f"pk.TextFormat({text})"
            lines.append(f"{name}={text}")
        lines.append("states=beliefs.states")
        return "\n    ".join(["pk.read(", *(f"{line}," for line in lines)]) + "\n)"

    def command(self) -> list[str]:
        """The same as options of a command."""
        said = {"state": self.state, "time": self.time, "cuts": self.cuts.replace(" ", "")}
        said["unit"] = self.unit if self.cuts else ""
        for name in OPTIONS:
            chosen = name in ("repeated_hour", "dates")
            said[name] = getattr(self, name).replace(" ", "-" if chosen else " ")
        return [
            word
            for name, value in said.items()
            if value
            for word in (f"--{name.replace('_', '-')}", value)
        ]


def read(source: DataFile, states: Sequence[Hashable] | None = None, *, many: bool = False) -> Any:
    """The entries of a file, of one subject or of many: the page's one call of the reader."""
    subject = (source.subject or "file") if many else None
    return pk.read(source.path, state=source.state, subject=subject, states=states, **source.given)


def read_model(path: str) -> ChainClass:
    """The chains in a JSON file."""
    return pk.ChainClass.from_json(Path(path).read_text(encoding="utf-8"))


def _number(what: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{what}: {text.strip()!r} is not a number; like 100, 760") from None


# --- questions ----------------------------------------------------------------------------------


class Form(NamedTuple):
    """An argument of a question on the page: its label, first value, meaning, and option."""

    label: str
    first: Callable[[Sequence[str]], Any]
    meaning: Callable[[Any, Sequence[Hashable]], Any]
    option: Callable[[Any], str]


def _plain(value: Any, _: Sequence[Hashable]) -> Any:
    return value


def _labelled(names: Sequence[str], states: Sequence[Hashable]) -> tuple[Hashable, ...]:
    if not names:
        raise ValueError("states: choose at least one that the question is about")
    return tuple(_label(name, states) for name in names)


def _valued(pairs: Any, states: Sequence[Hashable]) -> dict[Hashable, float]:
    given = {_label(name, states): value for name, value in pairs}
    missing = [str(state) for state in states if state not in given]
    if missing:
        raise ValueError(f"values: none for {', '.join(missing)}; give 0 for no contribution")
    return given


def usual_values(states: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Midpoints of levels where states are levels of numbers, their indices otherwise."""
    levels, values = pk.Bins.of_names(states), [float(n) for n in range(len(states))]
    if levels is not None and len(levels.cuts) > 1:  # an open level of a single cut has no middle
        values = [float(middle) for middle in levels.middles]
    return tuple(zip(states, values, strict=True))


def _usual_range(states: Sequence[str]) -> tuple[float, float]:
    values = [value for _, value in usual_values(states)]
    return min(values), max(values)


def _listed(names: Sequence[str]) -> str:
    """Names separated by commas; a single name may contain a comma."""
    if len(names) > 1 and any("," in name for name in names):
        raise ValueError("the command line takes no list of states whose names contain commas")
    return ",".join(names)


def _valued_option(pairs: Any) -> str:
    _listed([name for name, _ in pairs])
    return ",".join(f"{name}={value!r}" for name, value in pairs)


def _label(name: str, states: Sequence[Hashable]) -> Hashable:
    for state in states:
        if str(state) == name:
            return state
    known = ", ".join(str(state) for state in states)
    raise ValueError(f"state: {name!r} is not one of the states; they are {known}")


FORMS = {
    "states": Form("States", lambda states: tuple(states[-1:]), _labelled, _listed),
    "values": Form("The value of each state", usual_values, _valued, _valued_option),
    "range": Form(
        "Values are kept between", _usual_range, _plain, lambda ends: f"{ends[0]!r},{ends[1]!r}"
    ),
    "share": Form("Share of entries below it; 0.5 is the median", lambda _: 0.5, _plain, repr),
    "whole": Form("How many", lambda _: 1, lambda value, _: int(value), lambda n: str(int(n))),
    "time": Form(
        "At least, like 30m or 2h", lambda _: "30m", lambda text, _: number_or_text(text), str
    ),
    "hours": Form("Between, like 22:00-06:00", lambda _: "00:00-12:00", _plain, str),
}
"""By what an argument is (`pufferkit.data.queries.Form`). Weights come from a file, and are left to
the command line."""


def arguments(kind: str) -> Iterator[Field[Any]]:
    """The arguments of a question that the page asks for; a range only where one is required."""
    asked = NAMES[kind]
    for own in fields(asked):
        form = own.metadata.get("form")
        optional = form == "range" and not asked.replaced
        if form is not None and own.name not in asked.names[kind].fixed and not optional:
            yield own


def on_page() -> list[str]:
    """Names of the questions that the page asks, shares and means first."""
    there = [name for name in NAMES if all(a.metadata["form"] in FORMS for a in arguments(name))]
    return sorted(there, key=lambda name: NAMES[name].per != "entries")


def topics(*, clocked: bool) -> dict[str, dict[str, str]]:
    """Questions in words by topic; those about hours and days only for entries with times."""
    known: dict[str, dict[str, str]] = {topic: {} for topic in queries.TOPICS}
    for name in on_page():
        if clocked or not NAMES[name].clocked:
            known[NAMES[name].names[name].topic][name] = NAMES[name].names[name].words
    return {topic: kinds for topic, kinds in known.items() if kinds}


class QueryAndReader(NamedTuple):
    """A query, and how the answer is derived from its release; ``None``: the release itself."""

    query: Query
    read: Callable[[Release], Derived] | None = None


@dataclass(frozen=True)
class PageQuestion:
    """A question by its name on the command line, with its arguments as the page holds them."""

    kind: str = "frequencies"
    given: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def first(cls, kind: str, states: Sequence[str]) -> PageQuestion:
        """A question of a kind as the page first shows it."""
        asked = [(own.name, FORMS[own.metadata["form"]].first(states)) for own in arguments(kind)]
        return cls(kind, tuple(asked))

    def with_value(self, name: str, value: Any) -> PageQuestion:
        """The question with another value of an argument."""
        return PageQuestion(self.kind, tuple({**dict(self.given), name: value}.items()))

    @property
    def topic(self) -> str:
        """What it is about."""
        return NAMES[self.kind].names[self.kind].topic

    @property
    def words(self) -> str:
        """The question as the beginning of a sentence."""
        sentence, given = NAMES[self.kind].names[self.kind].words.capitalize(), dict(self.given)
        some = " or ".join(f"“{name}”" for name in given.get("of", ()))
        if "share" in given:
            sentence += f", {given['share']:g} of the entries below it"
        hours = str(given.get("between", "")).replace("-", " and ")
        sentence = sentence.replace("two hours of the day", hours)
        sentence = sentence.replace("enough time", f"{given.get('at_least')} or more")
        return sentence.replace("one state", some).replace("some states", some)

    def question(self, states: Sequence[Hashable]) -> Question:
        """What is asked, with labels of states for their names."""
        if self.kind not in NAMES:
            known = ", ".join(on_page())
            raise ValueError(f"question: {self.kind!r} is unknown; known are {known}")
        given, held = {}, dict(self.given)
        for own in arguments(self.kind):
            form = FORMS[own.metadata["form"]]
            if own.name in held or form.first is FORMS["states"].first:
                given[own.name] = form.meaning(held.get(own.name, ()), states)
        return question(self.kind, **given)

    def like(self, states: Sequence[Hashable], length: int) -> Query:
        """A query of the same sensitivity, for a length alone."""
        asked = self.question(states).in_numbers()
        return asked.whole(states, length) if asked.clocked else asked.bind(states, [length])

    def asked(self, beliefs: ChainClass, lengths: Any, epsilon: float) -> QueryAndReader:
        """The query for these beliefs, and how its release is read."""
        states, asked = beliefs.states, self.question(beliefs.states)
        if isinstance(asked, queries.Quantile):
            share, levels = float(asked.share), asked.levels
            plan = pk.plan_quantile(beliefs, share, levels, lengths, epsilon)
            return QueryAndReader(plan.query, plan.answer)
        what, given = asked.reading() or ("", {})

        def read(release: Release) -> Derived:
            return release.derive(what, **given)

        return QueryAndReader(asked.bind(states, lengths), read if asked.replaced else None)

    def python(self, states: Sequence[Hashable], epsilon: float) -> tuple[list[str], list[str]]:
        """Lines that make the query, and lines that read its release."""
        asked = self.question(states)
        if isinstance(asked, queries.Quantile):
            share, levels = float(asked.share), asked.levels
            plan = f"plan = pk.plan_quantile(beliefs, {share!r}, {levels!r}, data, {epsilon!r})"
            return [plan, "query = plan.query"], ["print(plan.answer(release))"]
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
        options, held = ["--query", self.kind], dict(self.given)
        for own in arguments(self.kind):
            flag = f"--{own.metadata['option'].replace('_', '-')}"
            options += [flag, FORMS[own.metadata["form"]].option(held[own.name])]
        return options


# --- the release --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """One release: data, beliefs, question, epsilon and account."""

    source: DataFile
    model: str
    question: PageQuestion
    epsilon: float
    mechanism: str
    ledger: str
    account: str
    budget: float
    anyway: bool = False

    def python(self) -> str:
        """The whole release as a program."""
        more = ", anyway=True" if self.anyway else ""
        made, read = self.question.python(read_model(self.model).states, self.epsilon)
        return "\n".join(
            [
                "from pathlib import Path",
                "",
                "import pufferkit as pk",
                "",
                f"model = Path({self.model!r})",
                "beliefs = pk.ChainClass.from_json(model.read_text(encoding='utf-8'))",
                f"data = {self.source.python()}",
                *made,
                f"account = pk.Account({self.ledger!r}, {self.account!r}, {self.budget!r})",
                f"release = pk.release(data, beliefs, query, {self.epsilon!r}, account=account, "
                f"mechanism={self.mechanism!r}{more})",
                "print(release.to_json())",
                *read,
            ]
        )

    def command(self) -> str:
        """The whole release as a command, ready for a shell; or why there is none."""
        try:
            asked = self.question.command()
        except ValueError as reason:
            return f"# {reason}"
        options = [
            *("pufferkit", "release", self.source.path, "--model", self.model, *asked),
            *("--epsilon", repr(self.epsilon), *self.source.command()),
            *("--ledger", self.ledger, "--account", self.account, "--budget", repr(self.budget)),
        ]
        if self.mechanism != "best":
            options += ["--mechanism", self.mechanism]
        return words([*options, "--anyway"] if self.anyway else options)


def words(command: Sequence[str]) -> str:
    """A command for a shell, an option and its value on a line each."""
    lines: list[str] = []
    for word in command:
        quoted = shlex.quote(word)
        if word.startswith("--") or not lines:
            lines.append(quoted)
        else:
            lines[-1] += f" {quoted}"
    return " \\\n    ".join(lines)
