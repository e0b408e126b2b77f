"""The state of the explorer: files, beliefs, question, account, and cached answers.

There is one workspace per server, so a page that is loaded again finds everything as it was.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from pufferkit.explore import release_tasks, tasks
from pufferkit.explore.column_roles import Columns, columns_of
from pufferkit.explore.demo import make_demo
from pufferkit.explore.page_questions import CLOCKED, GROUPS, PageQuestion
from pufferkit.explore.recipes import DataFile, Deal, codes_of
from pufferkit.explore.request_cache import Asking
from pufferkit.explore.worker import Cancelled, Refused, Worker

STEPS = ("Data", "Beliefs", "Question", "Release", "Account")
PUBLIC, PRIVATE = "public", "private"
EPSILONS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)
"""Values of the slider."""

_LARGEST = 256 * 2**20
_PAUSE = 0.2


@dataclass
class File:
    """A file with a role: how it is read, its columns, and what may be shown."""

    source: DataFile
    columns: Columns
    seen: dict[str, Any] = field(default_factory=dict)


class Dropped(Protocol):
    """A file that was dropped on the page; nothing of it is in memory before ``read``."""

    name: str

    def size(self) -> int:
        """Number of bytes."""
        ...

    async def read(self) -> bytes:
        """Its content."""
        ...


class Workspace(Asking):
    """State of the page; every answer is requested from a worker once and then cached."""

    def __init__(self, folder: Path, worker: type[Worker] = Worker) -> None:
        super().__init__(worker)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self.step = STEPS[0]
        self.dark: bool | None = None
        self.files: dict[str, File] = {}
        self.beliefs: dict[str, dict[str, Any]] = {}
        self.chosen = ""
        self.choice: dict[str, Any] | None = None
        self.checks: dict[str, dict[str, Any]] = {}
        self.question = PageQuestion()
        self.length, self.missing = 2016, 0
        self.epsilon = 1.0
        self.mechanism = "best"
        self.account, self.budget, self.label, self.anyway = "data", 3.0, "", False
        self.has_budget = False
        self.released: list[dict[str, Any]] = []
        self.releasing = False

    # Data

    async def name(self, role: str, path: str) -> None:
        """Take a file by its path; columns are guessed."""
        place = Path(path.strip()).expanduser()
        if not path.strip():
            raise ValueError("path: name a file, like ~/data/week.csv")
        if not place.is_file():
            raise ValueError(f"path: {place} is not a file")
        columns = await self._ask(columns_of, str(place.resolve()))
        source = DataFile(str(place.resolve()), columns.state, columns.time)
        if role == PUBLIC:
            source = replace(source, subject=columns.subject)
        self._set(role, File(source, columns))

    async def drop(self, role: str, file: Dropped) -> None:
        """Keep a dropped file in the folder, for its owner alone, and take it."""
        if file.size() > _LARGEST:
            raise ValueError("file: it is larger than 256 MB; give its path instead of dropping it")
        plain = "".join(c if c.isalnum() or c in ".-_" else "-" for c in Path(file.name).name)
        place = self.folder / f"{role}-{plain}"
        place.touch(mode=0o600)
        place.chmod(0o600)
        place.write_bytes(await file.read())
        await self.name(role, str(place))

    async def demo(self) -> None:
        """The demo's people: one private week, twelve public ones."""
        mine, others = await asyncio.to_thread(make_demo, self.folder)
        for role, source in ((PRIVATE, mine), (PUBLIC, others)):
            self._set(role, File(source, await self._ask(columns_of, source.path)))
            await self.read(role)

    def _set(self, role: str, file: File) -> None:
        self.files[role] = file
        if role == PUBLIC:
            self.choice, self.checks = None, {}

    async def correct(self, role: str, **changes: str) -> None:
        """Set the role of a column; what was read from the file is discarded."""
        file = self.files[role]
        file.source = replace(file.source, **changes)
        file.seen = {}
        if role == PUBLIC:
            self.choice, self.checks = None, {}

    async def read(self, role: str) -> None:
        """Read a file with the given columns."""
        file = self.files[role]
        if not file.source.state:
            raise ValueError("state: choose the column with the states")
        if role == PUBLIC:
            file.seen = await self._ask(tasks.look_at_public, file.source, self._named(PRIVATE))
            return
        public = self.files.get(PUBLIC)
        if not file.source.cuts and public is not None and public.source.cuts:
            cuts = {"cuts": public.source.cuts, "unit": public.source.unit}
            file.source = replace(file.source, **cuts)
        file.seen = await self._ask(tasks.look_at_private, file.source, self._named(PUBLIC))
        self.length, self.missing = file.seen["entries"], file.seen["missing"]

    async def suggest(self, role: str, count: int) -> str:
        """Cut points from the public file; never from the private one."""
        if PUBLIC not in self.files:
            raise ValueError("levels: cut points must be public; give a public file, or type them")
        given = (self.files[PUBLIC].source, count, self._named(PRIVATE))
        cuts: str = await self._ask(tasks.suggest_cuts, *given)
        return cuts

    def _named(self, role: str) -> DataFile | None:
        """A file that was named, whether or not it was read."""
        return self.files[role].source if role in self.files else None

    def source(self, role: str) -> DataFile | None:
        """A file that was read."""
        file = self.files.get(role)
        return file.source if file is not None and file.seen else None

    # Beliefs

    @property
    def states(self) -> list[str]:
        """States of the chosen beliefs, or of the public file."""
        if self.chosen:
            return list(self.beliefs[self.chosen]["states"])
        return list(self.files[PUBLIC].seen["states"]) if self.source(PUBLIC) else []

    def keep(self, model: dict[str, Any]) -> None:
        """Store a class, and choose it if it is the first."""
        self.beliefs[model["path"]] = model
        if not self.chosen:
            self.choose(model["path"])

    def choose(self, path: str) -> None:
        """Choose a stored class."""
        self.chosen = path
        named = {*self.question.of, *(name for name, _ in self.question.values)}
        if not named <= set(self.states):
            self.question = PageQuestion()

    async def build(self, task: Any, *given: Any) -> None:
        """Create a class and store it."""
        self.keep(await self._ask(task, *given, str(self.folder)))

    async def compare(self) -> None:
        """Every class on some public people, tested on the others."""
        public = self._public()
        given = (public, self.question, self.length, self.missing, self.epsilon, str(self.folder))
        self.choice = await self._long("Testing classes on people held out", tasks.choose, given)
        for row in self.choice["rows"]:
            if row["model"] is not None:
                self.keep(row["model"])
                if row["name"] == self.choice["recommended"]:
                    self.choose(row["model"]["path"])

    async def check(self) -> None:
        """Test the chosen class on public people."""
        given = (self.chosen, self._public(), 3)
        self.checks[self.chosen] = await self._long(
            "Checking the class on public people", tasks.check, given, telling=False
        )

    def _public(self) -> DataFile:
        source = self.source(PUBLIC)
        if source is None:
            raise ValueError("public file: name one in the first step, and read it")
        return source

    async def noise(self) -> list[dict[str, Any]]:
        """The noise of each stored class for the current question."""
        paths = tuple(self.beliefs)
        given = (paths, self.question, self.source(PRIVATE), self.length, self.epsilon)
        rows: list[dict[str, Any]] = await self._kept(tasks.noise, given, lane="noise")
        return rows

    # Question

    @property
    def _asked(self) -> tuple[Any, ...]:
        if not self.chosen:
            raise ValueError("beliefs: choose a class in the second step")
        return self.chosen, self.question, self.source(PRIVATE), self.length

    @property
    def has_clock(self) -> bool:
        """Whether the entries of the private file have times, so that hours can be asked about."""
        source = self.source(PRIVATE)
        return source is not None and bool(self.files[PRIVATE].seen["has_clock"])

    @property
    def groups(self) -> dict[str, dict[str, str]]:
        """Questions that can be asked of these data, in words, by what they are about."""
        known = {
            group: {n: words for n, words in kinds.items() if n not in CLOCKED or self.has_clock}
            for group, kinds in GROUPS.items()
        }
        return {group: kinds for group, kinds in known.items() if kinds}

    async def live(self) -> dict[str, Any]:
        """The noise at this epsilon, with simulated releases."""
        given = (*self._asked, self.epsilon, self.mechanism, self.source(PUBLIC))
        if (
            self.mechanism in release_tasks.FOR_SUMS
            and (release_tasks.live, given) not in self._answers
        ):
            name = f"The noise of {self.mechanism}"
            errors = await self._long(name, release_tasks.live, given, telling=False)
            self._answers[release_tasks.live, given] = errors
        answer: dict[str, Any] = await self._kept(release_tasks.live, given, lane="live")
        return answer

    async def prefetch(self) -> None:
        """Compute the other values of the slider while the slow worker is idle."""
        if not self.chosen or self.mechanism in release_tasks.FOR_SUMS:
            return
        asked, mechanism, public = self._asked, self.mechanism, self.source(PUBLIC)
        for epsilon in sorted(EPSILONS, key=lambda e: abs(e - self.epsilon)):
            key = (release_tasks.live, (*asked, epsilon, mechanism, public))
            while self.work.under_way or self._slow.busy:
                await asyncio.sleep(_PAUSE)
            if (asked, mechanism) != (self._asked, self.mechanism) or self.step != "Question":
                return
            if key not in self._answers:
                try:
                    self._answers[key] = await self._slow.run(release_tasks.live, *key[1])
                except (Cancelled, Refused):
                    return

    def planned(self) -> dict[str, Any] | None:
        """The plan, if it was computed."""
        return self._answers.get((release_tasks.plan, (*self._asked, self.epsilon)))

    async def plan(self) -> None:
        """Every mechanism side by side, and error against epsilon."""
        asked = self._asked
        given = (*asked, self.epsilon)
        planned = await self._long("Planning", release_tasks.plan, given)
        self._answers[release_tasks.plan, given] = planned
        there = [row["mechanism"] for row in planned["rows"] if row["applicable"]]
        quick = tuple(name for name in there if name not in release_tasks.FOR_SUMS)
        for names in (quick, tuple(name for name in there if name not in quick)):
            key = (release_tasks.errors, (*asked, names))
            if names and key not in self._answers:
                self._answers[key] = await self._long("Error against epsilon", *key)

    def error_rows(self) -> list[dict[str, Any]]:
        """Error against epsilon of all mechanisms, as far as it was computed."""
        asked = self._asked
        return [
            row
            for (task, given), rows in self._answers.items()
            if task is release_tasks.errors and given[:-1] == asked
            for row in rows
        ]

    # Release and account

    @property
    def ledger(self) -> str:
        """The account book of this folder."""
        return str(self.folder / "ledger.db")

    def deal(self) -> Deal:
        """The release as chosen so far."""
        source = self.source(PRIVATE)
        if source is None:
            raise ValueError("private file: name one in the first step, and read it")
        return Deal(
            source,
            self._asked[0],
            self.question,
            self.epsilon,
            self.mechanism,
            self.ledger,
            self.account,
            self.budget,
            self.label,
            self.anyway,
        )

    async def set_budget(self, account: str, budget: Any) -> None:
        """Set the account and its budget, after checking them with the ledger."""
        if not account.strip():
            raise ValueError("account: give a name for this series, like anna")
        if not isinstance(budget, (int, float)) or not budget > 0:
            raise ValueError("budget: must be a number above 0, for example 3")
        before = self.account, self.budget
        self.account, self.budget = account.strip(), float(budget)
        try:
            await self._ask(release_tasks.remaining, self.deal())
        except Refused:
            self.account, self.budget = before
            raise
        self.has_budget = True

    async def cost(self) -> dict[str, Any]:
        """What the release would take."""
        answer: dict[str, Any] = await self._ask(release_tasks.cost, self.deal())
        return answer

    async def remaining(self) -> float | None:
        """What is left of the budget, where data, beliefs and account are known."""
        if not self.has_budget or self.source(PRIVATE) is None or not self.chosen:
            return None
        answer = await self._ask(release_tasks.remaining, self.deal())
        left: float = answer["remaining"]
        return left

    async def release(self) -> dict[str, Any]:
        """One release; a second click while the first is running changes nothing."""
        if self.releasing:
            raise Cancelled("this release is under way")
        if not self.has_budget:
            raise ValueError("budget: set one first; it is for everything released about the data")
        deal = self.deal()
        self.releasing = True
        # A page that is reloaded or closed meanwhile cancels its request, but the ledger is charged
        # anyway: the result is kept for the next page.
        return await asyncio.shield(asyncio.ensure_future(self._release(deal)))

    async def _release(self, deal: Deal) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = await self._ask(release_tasks.release, deal)
        finally:
            self.releasing = False
        answer.update(codes_of(deal), deal=deal)
        if all(one["json"] != answer["json"] for one in self.released):
            self.released.append(answer)
        self.version += 1
        return answer

    async def exact(self, deal: Deal) -> list[float]:
        """The exact answer, which must stay private; refused before a budget exists."""
        if not self.has_budget:
            raise ValueError("budget: private data are not drawn before a budget exists")
        answer: list[float] = await self._ask(release_tasks.exact, deal)
        return answer

    async def books(self) -> dict[str, Any]:
        """The releases, and their joint epsilon."""
        answer: dict[str, Any] = await self._ask(release_tasks.account, self.deal())
        return answer

    async def verify(self, text: str) -> dict[str, Any]:
        """Whether a release's noise is enough."""
        verdict: dict[str, Any] = await self._ask(release_tasks.verify, text)
        return verdict
