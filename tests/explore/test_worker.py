"""The process that computes: answers, sentences, progress, cancelling."""

import asyncio
import time

import pytest

from pufferkit.explore.worker import Cancelled, Refused, Worker


def double(number):
    return 2 * number


def refuse():
    raise ValueError("epsilon: must be\n above 0")


def stumble():
    raise KeyError("no such thing")


def count(tell):
    for n in range(3):
        tell(n / 3, f"{n}")
        time.sleep(0.15)
    return "counted"


def for_ever():
    while True:
        time.sleep(1)


@pytest.fixture(scope="module")
def worker():
    made = Worker()
    yield made
    made.close()


def test_answers_and_sentences(worker):
    async def ask():
        assert await worker.run(double, 21) == 42
        with pytest.raises(Refused, match=r"^epsilon: must be above 0$"):
            await worker.run(refuse)
        with pytest.raises(Refused, match="Something went wrong"):
            await worker.run(stumble)
        assert await worker.run(double, 4) == 8

    asyncio.run(ask())


def test_what_a_task_tells_is_heard():
    worker, heard = Worker(), []

    async def ask():
        assert await worker.run(count, tell=lambda *said: heard.append(said)) == "counted"

    asyncio.run(ask())
    worker.close()
    assert heard == [(0, "0"), (1 / 3, "1"), (2 / 3, "2")]


def test_long_work_is_cancelled_and_the_next_task_is_done():
    worker = Worker()

    async def ask():
        work = asyncio.create_task(worker.run(for_ever))
        while not worker.busy:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        worker.cancel()
        with pytest.raises(Cancelled):
            await work
        assert await worker.run(double, 1) == 2

    asyncio.run(ask())
    worker.close()


def slowly(number):
    time.sleep(0.5)
    return number


def test_an_answer_that_nobody_waits_for_is_not_given_to_the_next():
    worker = Worker()

    async def ask():
        gone = asyncio.create_task(worker.run(slowly, 1))
        while not worker.busy:
            await asyncio.sleep(0.01)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert await worker.run(double, 5) == 10
        assert await worker.run(double, 6) == 12

    asyncio.run(ask())
    worker.close()


def test_of_waiting_tasks_in_a_lane_only_the_newest_is_done():
    worker = Worker()

    async def ask():
        runs = [worker.run(double, n, lane="live") for n in range(5)]
        return await asyncio.gather(*runs, return_exceptions=True)

    answers = asyncio.run(ask())
    worker.close()
    assert (answers[0], answers[-1]) == (0, 8)  # the first was under way already
    assert all(isinstance(answer, Cancelled) for answer in answers[1:-1])
