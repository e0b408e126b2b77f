"""The state of the explorer: files, beliefs, question, account, and cached answers.

There is one workspace per server, so a page that is loaded again finds everything as it was. One
worker answers quick requests, another does long work.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

from pufferkit.data.roles import FileColumns, columns_of
from pufferkit.explore import calls
from pufferkit.explore.choices import DataFile, PageQuestion, Request, topics
from pufferkit.explore.demo import make_demo
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
    columns: FileColumns
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


class Workspace:
    """State of the page; every answer is requested from a worker once and then cached."""

    def __init__(self, folder: Path, worker: type[Worker] = Worker) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self.step = STEPS[0]
        self.dark: bool | None = None
        self.guided = False
        self.files: dict[str, File] = {}
        self.compared: dict[str, Any] = {}
        self.beliefs: dict[str, dict[str, Any]] = {}
        self.chosen = ""
        self.choice: dict[str, Any] | None = None
        self.checks: dict[str, dict[str, Any]] = {}
        self.question = PageQuestion()
        self.length, self.missing = 2016, 0
        self.epsilon = 1.0
        self.mechanism = calls.BEST
        self.account, self.budget, self.has_budget, self.anyway = "data", 3.0, False, False
        self.released: list[dict[str, Any]] = []
        self.releasing = False
        self.work, self.doing = "", ""
        self.part: float | None = None
        self.version = 0
        self._answers: dict[Any, Any] = {}
        self._awaited: dict[Any, asyncio.Future[Any]] = {}
        self._quick, self._slow = worker(), worker()

    # Requests

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._quick.close()
        self._slow.close()

    def start(self) -> None:
        """Start both processes before the first question."""
        self._quick.start()
        self._slow.start()

    async def _ask(self, call: Any, *given: Any, lane: str = "") -> Any:
        return await self._quick.run(call, *given, lane=lane)

    async def _kept(self, call: Any, given: tuple[Any, ...], lane: str) -> Any:
        """A cached answer; two pages that ask at the same time wait for the same one."""
        key = (call, given)
        if key in self._answers:
            return self._answers[key]
        if key not in self._awaited:
            self._awaited[key] = asyncio.ensure_future(self._fetch(key, lane))
        return await asyncio.shield(self._awaited[key])

    async def _fetch(self, key: tuple[Any, tuple[Any, ...]], lane: str) -> Any:
        try:
            self._answers[key] = await self._ask(key[0], *key[1], lane=lane)
            return self._answers[key]
        finally:
            del self._awaited[key]

    async def _long(self, name: str, call: Any, *given: Any, telling: bool = True) -> Any:
        """Long work for the slow worker; pages look at ``work``, ``part`` and ``version``."""

        def show(part: float | None, words: str) -> None:
            self.part, self.doing = part, words

        if self.work:
            raise ValueError(f"{self.work.lower()} is running; wait for it or stop it")
        self.work = name
        try:
            return await self._slow.run(call, *given, tell=show if telling else None)
        finally:
            self.work, self.part, self.doing = "", None, ""
            self.version += 1

    def cancel(self) -> None:
        """Stop the long work."""
        self._slow.cancel()

    # Data

    async def name(self, role: str, path: str) -> None:
        """Take a file by its path; columns are guessed."""
        place = Path(path.strip()).expanduser()
        if not path.strip():
            raise ValueError("path: name a file, like ~/data/week.csv")
        if not place.is_file():
            raise ValueError(f"path: {place} is not a file")
        columns = await self._ask(columns_of, str(place.resolve()))
        subject = columns.subject if role == PUBLIC else ""
        source = DataFile(str(place.resolve()), columns.state, columns.time, subject)
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
        self.files[role], self.compared = file, {}
        if role == PUBLIC:
            self.choice, self.checks = None, {}

    def correct(self, role: str, **changes: str) -> None:
        """Set columns and options; what was read from the file is discarded."""
        file = self.files[role]
        self._set(role, File(replace(file.source, **changes), file.columns))

    async def read(self, role: str) -> None:
        """Read a file. Once both are read they are compared, and only then anything is drawn."""
        try:
            await self._read(role)
        except Refused as reason:
            if str(reason).startswith(calls.SAME[:20]) and PUBLIC in self.files:
                self.files[PUBLIC].seen = {}  # nothing is counted from it either
            raise

    async def _read(self, role: str) -> None:
        file, public = self.files[role], self.files.get(PUBLIC)
        if not file.source.state:
            raise ValueError("state: choose the column with the states")
        if role == PUBLIC:
            file.seen = await self._ask(calls.look_at_public, file.source, self._named(PRIVATE))
        else:
            if not file.source.cuts and public is not None and public.source.cuts:
                cuts = {"cuts": public.source.cuts, "unit": public.source.unit}
                file.source = replace(file.source, **cuts)
            file.seen = await self._ask(calls.look_at_private, file.source, self._named(PUBLIC))
            self.length, self.missing = file.seen["entries"], file.seen["missing"]
        both = self.source(PUBLIC), self.source(PRIVATE)
        self.compared = await self._ask(calls.compare, *both) if all(both) else {}

    async def suggest(self, count: int) -> str:
        """Cut points from the public file; never from the private one."""
        public = self._named(PUBLIC)
        if public is None:
            raise ValueError("levels: cut points must be public; give a public file, or type them")
        cuts: str = await self._ask(calls.suggest_cuts, public, count, self._named(PRIVATE))
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

    def choose(self, path: str) -> None:
        """Choose a stored class."""
        self.chosen = path
        given = dict(self.question.given)
        named = {*given.get("of", ()), *(name for name, _ in given.get("values", ()))}
        if not named <= set(self.states):
            self.question = PageQuestion()

    def _keep(self, model: dict[str, Any]) -> None:
        self.beliefs[model["path"]] = model
        self.choose(model["path"])

    async def build(self, name: str, make: Any, *given: Any) -> None:
        """Create a class, store it, and choose it."""
        self._keep(await self._ask(calls.keep, str(self.folder), name, make, *given))

    async def compare(self) -> None:
        """Every class on some public people, tested on the others; the recommended is chosen."""
        given = (self.question, self.length, self.missing, self.epsilon, str(self.folder))
        name = "Testing beliefs on people held out"
        self.choice = await self._long(name, calls.choose, self.public, *given)
        before, best = self.chosen, self.choice["recommended"]
        for model in self.choice["models"]:
            self._keep(model)
        self.choose(best["path"] if best else before or self.chosen)

    async def check(self) -> None:
        """Test the chosen class on public people."""
        given = (self.chosen, self.public, 3)
        self.checks[self.chosen] = await self._long(
            "Checking the beliefs on public people", calls.check, *given, telling=False
        )

    @property
    def public(self) -> DataFile:
        """The public file, which some beliefs need."""
        source = self.source(PUBLIC)
        if source is None:
            raise ValueError("public file: name one in the first step, and read it")
        return source

    async def noise(self) -> dict[str, str]:
        """How exact the answer is under each stored class, for the current question."""
        paths = tuple(self.beliefs)
        given = (paths, self.question, self.source(PRIVATE), self.length, self.epsilon)
        words: dict[str, str] = await self._kept(calls.noise, given, lane="noise")
        return words

    # Question

    @property
    def _asked(self) -> tuple[Any, ...]:
        if not self.chosen:
            raise ValueError("beliefs: choose some in the second step")
        return self.chosen, self.question, self.source(PRIVATE), self.length

    @property
    def topics(self) -> dict[str, dict[str, str]]:
        """Questions that can be asked of these data, in words, by what they are about."""
        clocked = self.source(PRIVATE) is not None and self.files[PRIVATE].seen["has_clock"]
        return topics(clocked=bool(clocked))

    def _live(self, epsilon: float) -> tuple[Any, ...]:
        return (*self._asked, epsilon, self.mechanism, self.source(PUBLIC))

    async def live(self) -> dict[str, Any]:
        """The noise at this epsilon, with simulated releases."""
        given = self._live(self.epsilon)
        if self.mechanism in calls.FOR_SUMS and (calls.live, given) not in self._answers:
            name = f"The noise of {self.mechanism}"
            answer = await self._long(name, calls.live, *given, telling=False)
            self._answers[calls.live, given] = answer
        answer = await self._kept(calls.live, given, lane="live")
        return dict(answer)

    async def prefetch(self) -> None:
        """Compute the other values of the slider while the slow worker is idle."""
        if not self.chosen or self.mechanism in calls.FOR_SUMS:
            return
        now = self._live(0.0)
        for epsilon in sorted(EPSILONS, key=lambda e: abs(e - self.epsilon)):
            key = (calls.live, self._live(epsilon))
            while self.work or self._slow.busy:
                await asyncio.sleep(_PAUSE)
            if now != self._live(0.0) or self.step != "Question":
                return
            if key not in self._answers:
                try:
                    self._answers[key] = await self._slow.run(calls.live, *key[1])
                except (Cancelled, Refused):
                    return

    def planned(self) -> dict[str, Any] | None:
        """The plan, if it was computed."""
        return self._answers.get((calls.plan, (*self._asked, self.epsilon)))

    async def plan(self) -> None:
        """Every mechanism side by side, and error against epsilon."""
        given = (*self._asked, self.epsilon)
        self._answers[calls.plan, given] = await self._long("Planning", calls.plan, *given)

    # Release and account

    def request(self) -> Request:
        """The release as chosen so far."""
        source = self.source(PRIVATE)
        if source is None:
            raise ValueError("private file: name one in the first step, and read it")
        asked = (source, self._asked[0], self.question, self.epsilon, self.mechanism)
        paid = (str(self.folder / "ledger.db"), self.account, self.budget)
        return Request(*asked, *paid, self.anyway)

    @property
    def can_release(self) -> bool:
        """Whether there are data and beliefs."""
        return bool(self.source(PRIVATE) and self.chosen)

    async def set_budget(self, account: str, budget: Any) -> None:
        """Set the account and its budget, after checking them with the ledger."""
        if not account.strip():
            raise ValueError("account: give a name for this series, like anna")
        if not isinstance(budget, (int, float)) or not budget > 0:
            raise ValueError("budget: must be a number above 0, for example 3")
        before = self.account, self.budget
        self.account, self.budget = account.strip(), float(budget)
        try:
            await self._ask(calls.remaining, self.request())
        except Refused:
            self.account, self.budget = before
            raise
        self.has_budget = True

    async def cost(self) -> dict[str, Any]:
        """What the release would take."""
        return dict(await self._ask(calls.cost, self.request()))

    async def remaining(self) -> float | None:
        """What is left of the budget, where data, beliefs and account are known."""
        if not self.has_budget or not self.can_release:
            return None
        return float(await self._ask(calls.remaining, self.request()))

    async def release(self) -> dict[str, Any]:
        """One release; a second click while the first is running changes nothing."""
        if self.releasing:
            raise Cancelled("this release is under way")
        if not self.has_budget:
            raise ValueError("budget: set one first; it is for everything released about the data")
        request = self.request()
        self.releasing = True
        # A page that is reloaded or closed meanwhile cancels its request, but the ledger is charged
        # anyway: the result is kept for the next page.
        return await asyncio.shield(asyncio.ensure_future(self._release(request)))

    async def _release(self, request: Request) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = await self._ask(calls.release, request)
        finally:
            self.releasing = False
        if all(one["json"] != answer["json"] for one in self.released):
            self.released.append(answer)
        self.version += 1
        return answer

    async def exact(self, request: Request, record: str) -> dict[str, Any]:
        """The release with the exact answer, which stays private; refused before a budget."""
        if not self.has_budget:
            raise ValueError("budget: private data are not drawn before a budget exists")
        return dict(await self._ask(calls.exact, request, record))

    async def books(self) -> dict[str, Any]:
        """The releases, and their joint epsilon."""
        return dict(await self._ask(calls.account, self.request()))

    async def verify(self, text: str) -> dict[str, Any]:
        """Whether a release's noise is enough."""
        return dict(await self._ask(calls.verify, text))
