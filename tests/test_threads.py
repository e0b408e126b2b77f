"""Linear algebra runs on one thread during a calculation, and as before after it."""

import sys
from threading import Barrier, Thread

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  (loads its own library)
from threadpoolctl import ThreadpoolController, threadpool_limits

from pufferkit import MarkovChain, count, influence_curve, plan
from pufferkit.threads import one_thread


def threads():
    every = ThreadpoolController().lib_controllers
    return {lib.filepath: lib.num_threads for lib in every if lib.user_api == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_one_thread_inside_and_what_was_before_outside():
    before = threads()
    assert set(before.values()) == {2}
    with one_thread(), one_thread():
        assert set(threads().values()) == {1}
    assert threads() == before


def test_an_error_leaves_nothing_behind():
    before = threads()

    @one_thread()
    def fails():
        assert set(threads().values()) == {1}
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fails()
    assert threads() == before


def test_calculations_that_overlap_leave_nothing_behind():
    before, first, second = threads(), Barrier(2), Barrier(2)

    def earlier():
        with one_thread():
            first.wait()
        second.wait()

    def later():
        first.wait()
        with one_thread():
            second.wait()

    both = [Thread(target=job) for job in (earlier, later)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert threads() == before


def test_any_thread_of_the_process_can_ask():
    before, seen = threads(), []

    def asks():
        with one_thread():
            seen.append(threads())

    thread = Thread(target=asks)
    thread.start()
    thread.join()
    assert set(seen[0].values()) == {1}
    assert threads() == before


def test_a_curve_is_computed_on_one_thread():
    before, seen = threads(), []
    matrix = np.random.default_rng(0).dirichlet(np.ones(5), size=5)
    influence_curve(
        MarkovChain.steady(matrix), count(1, 100), 1, progress=lambda *_: seen.append(threads())
    )
    assert seen
    assert all(set(each.values()) == {1} for each in seen)
    assert threads() == before


def test_a_plan_runs_on_one_thread_throughout():
    before, seen = threads(), []
    chain = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    plan(chain, count(1, 30), 1, progress=lambda *_: seen.append(set(threads().values())))
    assert seen
    assert all(numbers == {1} for numbers in seen)
    assert threads() == before


def test_what_is_loaded_inside_is_limited_by_the_next_block(monkeypatch):
    class Library:
        num_threads = 4

        def set_num_threads(self, number):
            self.num_threads = number

    early, late = Library(), Library()
    loaded = [early]
    monkeypatch.setattr("pufferkit.threads._libraries", lambda names: list(loaded))
    monkeypatch.setattr("pufferkit.threads._WITH_THREADS", ("numpy", "loaded_later"))
    with one_thread():
        monkeypatch.setitem(sys.modules, "loaded_later", sys)
        loaded.append(late)
        assert (early.num_threads, late.num_threads) == (1, 4)
        with one_thread():
            assert (early.num_threads, late.num_threads) == (1, 1)
        assert (early.num_threads, late.num_threads) == (1, 1)
    assert (early.num_threads, late.num_threads) == (4, 4)


def test_boosting_runs_on_one_thread():
    pytest.importorskip("sklearn.ensemble")
    every = ThreadpoolController().lib_controllers
    openmp = [library for library in every if library.user_api == "openmp"]
    assert openmp
    with threadpool_limits(2, user_api="openmp"):
        with one_thread():
            assert {library.num_threads for library in openmp} == {1}
        assert {library.num_threads for library in openmp} == {2}
