"""The page with a simulated user: every step, every refusal, in words."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

import pufferkit as pk
from pufferkit.explore import calls
from pufferkit.explore.choices import PageQuestion, read_model
from pufferkit.explore.worker import Cancelled, Refused
from pufferkit.explore.workspace import PRIVATE, PUBLIC, Workspace
from tests.explore.inline import Inline

pytest.importorskip("nicegui")

CHAIN = pk.MarkovChain.steady([[0.7, 0.3], [0.4, 0.6]], ["rest", "walk"])


def write(path, people, length=300):
    rows = ["person,state"]
    for number in range(people):
        codes = CHAIN.sample(length, seed=number + 1)
        rows += [f"p{number},{CHAIN.states[code]}" for code in codes]
    path.write_text("\n".join(rows) + "\n")
    return str(path)


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path / "folder", Inline)


@pytest.fixture
def files(tmp_path):
    mine = tmp_path / "mine.csv"
    mine.write_text("state\n" + "".join(f"{CHAIN.states[c]}\n" for c in CHAIN.sample(300, seed=99)))
    return write(tmp_path / "others.csv", 3), str(mine)


async def prepared(workspace, files):
    public, private = files
    await workspace.name(PUBLIC, public)
    await workspace.read(PUBLIC)
    await workspace.name(PRIVATE, private)
    await workspace.read(PRIVATE)
    await workspace.build("single chain", calls.single_chain, workspace.public)


def visit(workspace, act):
    """Run a simulated user on the page of a workspace."""
    from nicegui.testing import user_simulation

    from pufferkit.explore.page import draw

    async def run():
        async with user_simulation(lambda: draw(workspace)) as user:
            await user.open("/")
            await act(user)

    asyncio.run(run())


def test_the_page_says_where_it_runs_and_starts_with_data(workspace):
    async def act(user):
        await user.should_see("Runs on this machine only: served on 127.0.0.1")
        await user.should_see("Public file")
        await user.should_see("It is read and counted, never drawn.")

    visit(workspace, act)


def test_a_path_that_is_no_file_is_named(workspace, tmp_path):
    async def act(user):
        user.find(marker="public-path").type(str(tmp_path / "gone.csv"))
        user.find(marker="public-open").click()
        await user.should_see("gone.csv is not a file", retries=20)

    visit(workspace, act)


async def read(user, role, path, said):
    user.find(marker=f"{role}-path").type(path)
    user.find(marker=f"{role}-open").click()
    await user.should_see(marker=f"{role}-read", retries=20)
    user.find(marker=f"{role}-read").click()
    await user.should_see(said, retries=20)


def pictures(user):
    return [element for element in user.client.elements.values() if element.tag == "img"]


def test_nothing_is_drawn_before_both_files_were_compared(workspace, files):
    async def act(user):
        await read(user, "public", files[0], "3 subjects, 900 entries")
        assert pictures(user) == []
        await read(user, "private", files[1], "Read: 300 entries.")
        await user.should_see(marker="compared", retries=20)
        assert len(pictures(user)) == 2  # light and dark

    visit(workspace, act)


def disguised(path, mine):
    """The private series as one person among others, under other column names."""
    own = Path(mine).read_text().split()[1:]
    rows = ["who;activity"] + [f"a;{CHAIN.states[c]}" for c in CHAIN.sample(200, seed=7)]
    path.write_text("\n".join([*rows, *(f"b;{state}" for state in own), ""]))
    return str(path)


@pytest.mark.parametrize("how", ["same path", "copy", "among others"])
@pytest.mark.parametrize("first", [PRIVATE, PUBLIC])
def test_the_private_file_is_refused_as_the_public_one_before_it_is_drawn(
    workspace, files, tmp_path, how, first
):
    mine = files[1]
    public = {"same path": lambda: mine, "copy": lambda: shutil.copy(mine, tmp_path / "copy.csv"),
              "among others": lambda: disguised(tmp_path / "b.csv", mine)}[how]()  # fmt: skip

    async def act():
        paths = {PRIVATE: mine, PUBLIC: str(public)}
        second = PUBLIC if first == PRIVATE else PRIVATE
        await workspace.name(first, paths[first])
        await workspace.read(first)
        await workspace.name(second, paths[second])
        if how == "among others" and second == PUBLIC:
            workspace.correct(PUBLIC, state="activity", subject="who")
        with pytest.raises((ValueError, Refused), match="private file"):
            await workspace.read(second)
        assert not workspace.files[second].seen
        assert not workspace.files[PUBLIC].seen
        assert not workspace.compared
        if second == PUBLIC:
            with pytest.raises((ValueError, Refused), match="private file"):
                await workspace.suggest(4)

    asyncio.run(act())


def test_a_private_file_named_but_not_yet_read_is_known(workspace, files):
    async def act(user):
        await workspace.name(PRIVATE, files[1])
        await read(user, "public", files[1], "it is the private file")
        assert pictures(user) == []

    visit(workspace, act)


@pytest.mark.slow
def test_question_release_and_account_through_the_page(workspace, files):
    asyncio.run(prepared(workspace, files))

    async def act(user):
        workspace.step = "Question"
        await user.open("/")
        await user.should_see("95% of shares are within", retries=50)
        await user.should_see("a chance of 1 in 10", retries=50)
        user.find(marker="next").click()
        await user.should_see("Set the budget", retries=20)
        await user.should_not_see("Cost first")
        user.find(marker="set-budget").click()
        await user.should_see("It takes 1 of the 3 that remain: fits.", retries=50)
        user.find(marker="release").click()
        await user.should_see("Released: relative frequencies, epsilon 1", retries=50)
        user.find(marker="next").click()
        await user.should_see("Together epsilon 1 of 3", retries=50)
        user.find(marker="verify").click()
        await user.should_see("Ok: reported scale", retries=50)

    visit(workspace, act)


def test_a_workspace_survives_a_second_page(workspace, files):
    asyncio.run(prepared(workspace, files))
    workspace.step = "Beliefs"

    async def act(user):
        await user.should_see("What “single chain” means", retries=20)
        await user.open("/")
        await user.should_see("What “single chain” means", retries=20)

    visit(workspace, act)


def test_noise_that_drowns_is_called_so_and_released_only_if_meant(workspace, files):
    asyncio.run(prepared(workspace, files))
    workspace.epsilon = 0.01

    async def ask():
        await workspace.set_budget("anna", 3.0)
        assert "the noise drowns the answer" in (await workspace.live())["warning"]
        assert "the noise drowns the answer" in (await workspace.cost())["warning"]
        with pytest.raises(Refused, match="nothing was released"):
            await workspace.release()
        assert await workspace.remaining() == 3.0
        workspace.anyway = True
        answer = await workspace.release()
        assert answer["remaining"] == pytest.approx(2.99)
        assert "--anyway" in answer["command"]

    asyncio.run(ask())


def test_a_second_press_while_a_release_is_under_way_changes_nothing(workspace, files):
    asyncio.run(prepared(workspace, files))

    async def ask():
        await workspace.set_budget("anna", 3.0)
        workspace.releasing = True
        with pytest.raises(Cancelled):
            await workspace.release()
        workspace.releasing = False
        first, again = await workspace.release(), await workspace.release()
        assert first["json"] == again["json"]
        assert again["remaining"] == 2.0
        assert len(workspace.released) == 1

    asyncio.run(ask())


def test_a_release_is_kept_for_the_next_page_if_its_own_went_away(workspace, files):
    asyncio.run(prepared(workspace, files))

    async def ask():
        await workspace.set_budget("anna", 3.0)
        gone, asked = asyncio.Event(), workspace._ask

        async def slowly(*given, **more):
            await gone.wait()
            return await asked(*given, **more)

        workspace._ask = slowly
        page = asyncio.create_task(workspace.release())
        await asyncio.sleep(0.01)
        page.cancel()
        gone.set()
        with pytest.raises(asyncio.CancelledError):
            await page
        while workspace.releasing:
            await asyncio.sleep(0.01)
        assert len(workspace.released) == 1

    asyncio.run(ask())


def test_private_data_are_never_drawn_before_a_budget_exists(workspace, files):
    asyncio.run(prepared(workspace, files))

    async def ask():
        with pytest.raises(ValueError, match="before a budget exists"):
            await workspace.exact(workspace.request(), "")
        with pytest.raises(ValueError, match="budget: set one first"):
            await workspace.release()
        await workspace.set_budget("anna", 3.0)
        with pytest.raises(Refused, match="only after a release"):
            await workspace.exact(workspace.request(), "")
        answer = await workspace.release()
        shown = await workspace.exact(answer["request"], answer["json"])
        assert "exact answer, which is private" in shown["words"]

    asyncio.run(ask())


def test_simulated_releases_are_of_invented_entries(workspace, files):
    asyncio.run(prepared(workspace, files))
    private = calls.series_of(workspace.source(PRIVATE), CHAIN.states)
    answer = asyncio.run(workspace.live())
    assert "as the public people do" in answer["whose"]
    truth = pk.relative_frequencies(CHAIN.states, private).exact(private)
    told = ", ".join(f"{a} {float(b):.3g}" for a, b in zip(CHAIN.states, truth, strict=True))
    assert "answer without noise: rest 0." in answer["picture"]["words"]
    assert told not in answer["picture"]["words"]


def test_the_noise_is_that_of_the_mechanism_that_was_chosen(workspace, files):
    asyncio.run(prepared(workspace, files))
    query = pk.relative_frequencies(CHAIN.states, 300)
    theta = pk.ChainClass.from_json(Path(workspace.chosen).read_text())
    for name, made in (("best", pk.influence_curve), ("markov_quilt", pk.markov_quilt)):
        workspace.mechanism = name
        assert asyncio.run(workspace.live())["scale"] == made(theta, query, 1.0).scale
    workspace.mechanism = "exact_sum"
    with pytest.raises(Refused, match="exact_sum is for numbers"):
        asyncio.run(workspace.live())
    workspace.question = PageQuestion("count", (("of", ("walk",)),))
    assert asyncio.run(workspace.live())["mechanism"] == "exact_sum"
    assert not workspace.work


def test_questions_about_hours_are_offered_to_files_with_times_alone(workspace, files, tmp_path):
    asyncio.run(prepared(workspace, files))
    assert set(workspace.topics) == {"shares and counts", "moves", "numbers"}
    week = "".join(
        f"2024-03-{4 + n // 24:02d} {n % 24:02d}:00,{CHAIN.states[c]}\n"
        for n, c in enumerate(CHAIN.sample(168, seed=5))
    )
    (tmp_path / "week.csv").write_text(f"time,state\n{week}")
    asyncio.run(workspace.name(PRIVATE, str(tmp_path / "week.csv")))
    asyncio.run(workspace.read(PRIVATE))
    assert "by-hour" in workspace.topics["by time"]
    for kind, words in (("by-hour", "One simulated release"), ("quantile", "What follows from")):
        workspace.question = PageQuestion.first(kind, CHAIN.states)
        assert words in asyncio.run(workspace.live())["picture"]["words"]


def test_records_of_the_ledger_and_of_others_are_verified(workspace, files):
    asyncio.run(prepared(workspace, files))

    async def ask():
        await workspace.set_budget("anna", 3.0)
        answer = await workspace.release()
        workspace.released.clear()  # as after the server was started again
        [record] = (await workspace.books())["records"]
        assert json.loads(record["json"]) == json.loads(answer["json"])
        assert (await workspace.verify(record["json"]))["ok"]
        for text, words in (("{", "is not JSON"), ("[1]", "is not a release"), ("{}", "release")):
            with pytest.raises(Refused, match=words):
                await workspace.verify(text)

    asyncio.run(ask())


def test_two_pages_that_ask_at_once_both_get_the_answer(workspace, files):
    asyncio.run(prepared(workspace, files))

    async def ask():
        both = await asyncio.gather(workspace.noise(), workspace.noise())
        assert both[0] is both[1]
        await workspace.set_budget("anna", 3.0)
        costs = await asyncio.gather(*(workspace.cost() for _ in range(3)))
        assert len({cost["cost"] for cost in costs}) == 1

    asyncio.run(ask())


def test_a_budget_that_differs_from_the_ledger_is_refused_in_its_words(workspace, files):
    asyncio.run(prepared(workspace, files))

    async def ask():
        for account, budget, words in (
            ("", 3.0, "account: give a name"),
            ("anna", 0, "budget: must be"),
        ):
            with pytest.raises(ValueError, match=words):
                await workspace.set_budget(account, budget)
        await workspace.set_budget("anna", 3.0)
        await workspace.release()
        with pytest.raises(Refused, match="budget"):
            await workspace.set_budget("anna", 5.0)
        assert workspace.budget == 3.0

    asyncio.run(ask())


def test_every_class_on_offer_is_kept_with_its_words_and_the_newest_is_chosen(workspace, files):
    asyncio.run(prepared(workspace, files))
    public, folder = workspace.public, workspace.folder
    states = ("rest", "walk")

    async def ask():
        for make in (calls.like_these, calls.any_of_these, calls.any_start):
            await workspace.build(make.__name__, make, public)
            assert make.__name__.split("_")[0] in workspace.chosen
        await workspace.build("bounds", calls.bounded, states, 0.3, 0.9)
        await workspace.build("bounds", calls.mixing, states, 0.1, 0.3)
        await workspace.build("matrix", calls.by_hand, states, ((0.9, 0.1), (0.2, 0.8)), "any")
        path = folder / "own.json"
        path.write_text(pk.ChainClass.of(CHAIN).to_json())
        await workspace.build("file", read_model, str(path))
        with pytest.raises(Refused, match="sums to"):
            await workspace.build("m", calls.by_hand, states, ((0.9, 0.3), (0.2, 0.8)), "any")
        return await workspace.noise()

    words = asyncio.run(ask())
    assert len(words) == len(workspace.beliefs) == 8
    assert all("95% of shares within" in line for line in words.values())
    assert all(model["promise"] for model in workspace.beliefs.values())


def test_a_plan_is_kept_and_error_rows_with_it(workspace, files):
    asyncio.run(prepared(workspace, files))
    assert workspace.planned() is None
    asyncio.run(workspace.plan())
    assert workspace.planned()["best"] == "influence_curve"
    there = {row["mechanism"] for row in workspace.planned()["said"]["rows"]}
    errors = workspace.planned()["errors"]
    assert {row["mechanism"] for row in errors} <= there
    assert {row["epsilon"] for row in errors} == {0.1, 0.2, 0.5, 1, 2, 5, 10}
    assert not workspace.work


def test_a_check_on_public_people_gives_a_verdict(workspace, files):
    asyncio.run(prepared(workspace, files))
    asyncio.run(workspace.check())
    report = workspace.checks[workspace.chosen]
    assert report["rows"]
    assert "verdict: " in " ".join(text for _, text in report["statements"])


class Dropped:
    """A file dropped on the page, of this size; ``None`` if it must not be read."""

    def __init__(self, name, content, size):
        self.name, self.content, self._size = name, content, size

    def size(self):
        return self._size

    async def read(self):
        assert self.content is not None
        return self.content


def test_a_dropped_file_that_is_too_large_is_refused_unread(workspace):
    with pytest.raises(ValueError, match="256 MB"):
        asyncio.run(workspace.drop(PRIVATE, Dropped("year.csv", None, 1 << 40)))
    assert not list(workspace.folder.glob("*year*"))


def test_a_dropped_file_is_for_its_owner_alone(workspace):
    week = Dropped("../../week of anna.csv", b"state\nrest\nwalk\n", 16)
    asyncio.run(workspace.drop(PRIVATE, week))
    path = workspace.files[PRIVATE].source.path
    assert path == str(workspace.folder / "private-week-of-anna.csv")
    assert (workspace.folder / "private-week-of-anna.csv").stat().st_mode & 0o777 == 0o600
    assert workspace.folder.stat().st_mode & 0o777 == 0o700


def test_verification_of_a_spoiled_record_says_no(workspace, files):
    asyncio.run(prepared(workspace, files))

    async def ask():
        await workspace.set_budget("anna", 3.0)
        record = json.loads((await workspace.release())["json"])
        assert calls.verify(json.dumps(record))["ok"]
        record["scale"] /= 2
        assert not calls.verify(json.dumps(record))["ok"]

    asyncio.run(ask())


def test_a_refusal_has_its_control_beside_it_and_no_word_of_python(workspace, tmp_path):
    hours = [f"2024-10-27 0{hour}:00" for hour in (0, 1, 2, 2, 3, 4)]
    night = tmp_path / "night.csv"
    night.write_text("time,state\n" + "".join(f"{h},{'ab'[n % 2]}\n" for n, h in enumerate(hours)))

    async def act(user):
        await read(user, "private", str(night), "the same time as another row")
        [beside] = user.find(marker="private-remedy").elements
        labels = [child.props.get("label") for child in beside.default_slot.children]
        assert labels == ["Time between entries", "The hour that occurs twice"]

    visit(workspace, act)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "n.csv: 2 rows are in an hour that occurs twice; choose how to treat it "
            "(repeated_hour='shift', --repeated-hour), or give the zone (times_in=)",
            "n.csv: 2 rows are in an hour that occurs twice; choose how to treat it, or give the "
            "zone.",
        ),
        ("cuts: must increase, got [300.0, 100.0]", "Cut points: must increase, got 300.0, 100.0."),
        ("every: needs times; name their column with time=", "Every: needs times."),
        ("epsilon: must be above 0", "Epsilon: must be above 0."),
        ("intervals (Beta(1/2, 1/2) mixture)", "Intervals (Beta(1/2, 1/2) mixture)."),
        ("give lengths=300", "Give lengths=300."),
    ],
)
def test_refusals_are_in_plain_words(text, words):
    from pufferkit.explore.page_parts import plain_words

    assert plain_words(text) == words


def test_the_tutorial_can_be_switched_on(workspace, files):
    async def act(user):
        await user.should_not_see("Privacy is for the private file")
        user.find(marker="tutorial").click()
        await user.should_see("Privacy is for the private file")
        await user.should_see("○ Open a public file, of other people.")

    visit(workspace, act)


def test_the_form_of_every_question_can_be_drawn_and_asked(workspace, files):
    from pufferkit.explore.choices import on_page

    asyncio.run(prepared(workspace, files))
    workspace.step = "Question"
    for kind in on_page():
        workspace.question = PageQuestion.first(kind, CHAIN.states)
        assert workspace.question.question(CHAIN.states).name == kind
    workspace.question = PageQuestion.first("variance", CHAIN.states)

    async def act(user):
        await user.should_see("The value of each state:")
        await user.should_see(marker="clip-and this")
        await user.should_see("more private")

    visit(workspace, act)
