"""No draw is made twice: not by the children of a fork, not by a copy, not by a pickle.

Two workers with the same noise on different data give away the difference of the data.
"""

import copy
import multiprocessing
import os
import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest

from pufferkit import MarkovChain, Series, count, influence_curve, noise
from pufferkit.local import cheapest_noise
from pufferkit.noise import opendp_draws

HALF = (2**63, 2**63)
THIRDS = (2**62, 2**62, 2**62)
CHAIN = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
ENTRIES = 128


def child_of_fork(door):
    """What a door gives in a forked child, handed back through a pipe."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(write, "wb") as stream:
                pickle.dump(door(), stream)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        answer = pickle.load(stream)
    os.waitpid(child, 0)
    return answer


def after_a_fork(door):
    """Draws of two children and of their parent, from one state of the parent."""
    return [tuple(child_of_fork(door)), tuple(child_of_fork(door)), tuple(door())]


def response_stream(thresholds=HALF):
    stream = noise.response_stream(iter([0] * 10_000), thresholds)
    next(stream)
    return lambda: [next(stream) for _ in range(ENTRIES)]


def sanitised_stream():
    stream = cheapest_noise(CHAIN, 1).sanitize(iter([0, 1] * 5_000))
    next(stream)
    return lambda: [next(stream) for _ in range(ENTRIES)]


def sanitised(data):
    mechanism = cheapest_noise(CHAIN, 1)
    return lambda: list(getattr(mechanism.sanitize(data), "labels", mechanism.sanitize(data)))


def released():
    calibration = influence_curve(CHAIN, count(1, 20), 1e-6)
    return lambda: calibration.release([0, 1] * 10).raw


WIDE = np.full((1, 1), 1e9)
DOORS = {
    "laplace": lambda: lambda: noise.laplace([[Fraction(0)]], [0] * 3, 1.0, 1.0),
    "discrete_laplace": lambda: (
        lambda: noise.discrete_laplace([[Fraction(0)]], [0] * 3, [1e9], Fraction(1))
    ),
    "discrete_laplace_rows": lambda: (
        lambda: noise.discrete_laplace_rows(np.zeros((1, 4), int), WIDE).ravel().tolist()
    ),
    "laplace, many numbers": lambda: lambda: noise.laplace([[Fraction(0)] * 40], [0], 1.0, 40.0),
    "release": released,
    "responses": lambda: lambda: noise.responses(np.zeros(ENTRIES, int), HALF).tolist(),
    "responses of three": lambda: lambda: noise.responses(np.zeros(ENTRIES, int), THIRDS).tolist(),
    "response_stream": response_stream,
    "response_stream of three": lambda: response_stream(THIRDS),
    "sanitised stream": sanitised_stream,
    "sanitised array": lambda: sanitised(np.array([0, 1] * ENTRIES)),
    "sanitised list": lambda: sanitised([0, 1] * ENTRIES),
    "sanitised series": lambda: sanitised(Series.of([0, 1] * ENTRIES)),
}


@pytest.mark.parametrize("name", DOORS)
def test_forked_workers_draw_different_noise(name):
    door = DOORS[name]()
    door()  # whatever keeps a state has one now
    draws = after_a_fork(door)
    assert len(set(draws)) == len(draws)


def _numbers(stream, pipe):
    pipe.send([next(stream) for _ in range(ENTRIES)])


@pytest.mark.filterwarnings("ignore:This process")
def test_workers_of_multiprocessing_draw_different_noise():
    context = multiprocessing.get_context("fork")
    stream = cheapest_noise(CHAIN, 1).sanitize(iter([0, 1] * 5_000))
    next(stream)
    answers = []
    for _ in range(2):
        ours, theirs = context.Pipe()
        worker = context.Process(target=_numbers, args=(stream, theirs))
        worker.start()
        answers.append(ours.recv())
        worker.join()
    assert answers[0] != answers[1]


def test_a_sampler_that_knows_nothing_of_forks_is_asked_on_a_thread_of_its_own(monkeypatch):
    """Some versions of OpenDP keep one generator for each thread and never look for a fork."""
    state = threading.local()

    def careless(values):
        if not hasattr(state, "generator"):
            state.generator = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
        wide = state.generator.laplace(scale=1e9, size=len(values))
        return (np.array(values) + np.rint(wide)).astype(int).tolist()

    monkeypatch.setenv("PUFFERKIT_SAMPLER", "opendp")
    for sampler in ("grid_measurement", "whole_measurement"):
        monkeypatch.setattr(opendp_draws, sampler, lambda *_: (careless, 0.0))
    for name in ("laplace", "discrete_laplace", "discrete_laplace_rows"):
        door = DOORS[name]()
        door()
        draws = after_a_fork(door)
        assert len(set(draws)) == len(draws)
        grandchild = [tuple(child_of_fork(lambda door=door: child_of_fork(door))) for _ in range(2)]
        assert grandchild[0] != grandchild[1]


@pytest.mark.parametrize("name", ["response_stream", "sanitised stream"])
def test_a_copied_stream_draws_no_word_twice(name):
    """A plain copy is the same stream; a deep copy or a pickle is refused."""
    stream = (
        noise.response_stream(iter([0] * 10_000), HALF)
        if name == "response_stream"
        else cheapest_noise(CHAIN, 1).sanitize(iter([0] * 10_000))
    )
    next(stream)
    with pytest.raises(TypeError):
        copy.deepcopy(stream)
    with pytest.raises(TypeError):
        pickle.dumps(stream)
    try:
        other = copy.copy(stream)
    except TypeError:
        return
    assert [next(stream) for _ in range(ENTRIES)] != [next(other) for _ in range(ENTRIES)]


def test_a_copied_or_pickled_calibration_draws_anew():
    calibration = influence_curve(CHAIN, count(1, 20), 1e-6)
    copies = [
        calibration,
        copy.copy(calibration),
        copy.deepcopy(calibration),
        pickle.loads(pickle.dumps(calibration)),
    ]
    values = [own.release([0, 1] * 10).raw for own in copies]
    assert len(set(values)) == len(values)
