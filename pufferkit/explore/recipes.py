"""The user's choices as values: each creates an object of the library and writes itself as code.

Page, Python code and command come from the same recipe, so they do the same.
"""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pufferkit as pk
from pufferkit.data.durations import number_or_text

if TYPE_CHECKING:
    from pufferkit import Bins, ChainClass, Series, Table
    from pufferkit.explore.page_questions import PageQuestion


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


def call(name: str, given: Sequence[str]) -> str:
    """A call in Python, an argument on a line each."""
    return "\n    ".join([f"{name}(", *(f"{argument}," for argument in given)]) + "\n)"


@dataclass(frozen=True)
class DataFile:
    """A file and the roles of its columns. Empty text means not given."""

    path: str
    state: str
    time: str = ""
    subject: str = ""
    cuts: str = ""
    unit: str = ""
    every: str = ""
    independent_after: str = ""

    @property
    def bins(self) -> Bins | None:
        """The levels of numbers, from their cut points."""
        if not self.cuts:
            return None
        return pk.Bins([_number("cuts", cut) for cut in self.cuts.split(",")], unit=self.unit)

    @property
    def _times(self) -> str | tuple[str, ...] | None:
        if not self.time:
            return None
        parts = tuple(part.strip() for part in self.time.split(","))
        return parts if len(parts) > 1 else self.time

    @property
    def _how(self) -> dict[str, Any]:
        """The reader options that were given."""
        said = {
            "time": self._times,
            "bins": self.bins,
            "every": number_or_text(self.every) if self.every else None,
            "independent_after": number_or_text(self.independent_after)
            if self.independent_after
            else None,
        }
        return {name: value for name, value in said.items() if value is not None}

    def series(self, states: Sequence[Hashable] | None = None) -> Series:
        """All rows as the series of one subject."""
        return pk.read_series(self.path, self.state, states=states, **self._how)

    def table(self) -> Table:
        """All rows as those of many subjects."""
        how = {"subject": self.subject or None, **self._how}
        if "time" not in how and "every" not in how:
            how["every"] = 1  # rows without times are successive entries
        return cast("Table", pk.read_table(self.path, state=self.state, **how))

    def python(self) -> str:
        """The call that reads the series."""
        how = dict(self._how)
        lines = [repr(self.path), repr(self.state)]
        if "bins" in how:
            how.pop("bins")
            cuts = ", ".join(cut.strip() for cut in self.cuts.split(","))
            unit = f", unit={self.unit!r}" if self.unit else ""
            lines.append(f"bins=pk.Bins([{cuts}]{unit})")
        lines += [f"{name}={value!r}" for name, value in how.items()]
        return call("pk.read_series", [*lines, "states=beliefs.states"])

    def command(self) -> list[str]:
        """The same as options of a command."""
        said = {
            "--state": self.state,
            "--time": self.time,
            "--cuts": self.cuts.replace(" ", ""),
            "--unit": self.unit if self.cuts else "",
            "--every": self.every,
            "--independent-after": self.independent_after,
        }
        return [word for option, value in said.items() if value for word in (option, value)]


@dataclass(frozen=True)
class Deal:
    """One release: data, beliefs, query, epsilon and account."""

    source: DataFile
    model: str
    question: PageQuestion
    epsilon: float
    mechanism: str
    ledger: str
    account: str
    budget: float
    label: str = ""
    anyway: bool = False

    def beliefs(self) -> ChainClass:
        """The class in the file of the model."""
        return read_model(self.model)

    def python(self) -> str:
        """The whole release as a program."""
        more = f", label={self.label!r}" if self.label else ""
        more += ", anyway=True" if self.anyway else ""
        made, read = self.question.python(self.beliefs().states, self.epsilon)
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
                f"book = {self.ledger!r}",
                f"account = pk.Account(book, {self.account!r}, {self.budget!r})",
                f"release = pk.release(data, beliefs, query, {self.epsilon!r}, account=account, "
                f"mechanism={self.mechanism!r}{more})",
                "print(release.to_json())",
                *read,
            ]
        )

    def command(self) -> str:
        """The whole release as a command, ready for a shell."""
        options = [
            *("pufferkit", "release", self.source.path),
            *("--model", self.model),
            *self.question.command(),
            *("--epsilon", repr(self.epsilon)),
            *self.source.command(),
            *("--ledger", self.ledger, "--account", self.account, "--budget", repr(self.budget)),
        ]
        if self.mechanism != "best":
            options += ["--mechanism", self.mechanism]
        if self.label:
            options += ["--label", self.label]
        if self.anyway:
            options.append("--anyway")
        return words(options)


def codes_of(deal: Deal) -> dict[str, str]:
    """The program and the command, or why there is no command."""
    try:
        command = deal.command()
    except ValueError as reason:
        command = f"# {reason}"
    return {"python": deal.python(), "command": command}


def read_model(path: str) -> ChainClass:
    """The chains in a JSON file."""
    return pk.ChainClass.from_json(Path(path).read_text(encoding="utf-8"))


def _number(what: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{what}: {text.strip()!r} is not a number; like 100, 760") from None
