"""A pytest plugin for runs on mutants: the quickest tests first, and only so many seconds of them.

A mutant that survives is one that these tests do not notice, so the rates are lower bounds. Time is
processor time throughout, also where a mutant that runs for ever is stopped: other work on the
machine changes no verdict. Only a mutant that waits for ever, for a lock, is stopped by the clock.
"""

import json
import os
import resource
import signal
import time
from pathlib import Path

import pytest

SECONDS = 8.0
WAITING = 600
MEASURED = Path("seconds-of-tests.json")
measured: dict[str, float] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Measure each test in the run that finds out which functions it reaches."""
    start = time.process_time()
    try:
        return (yield)
    finally:
        measured[item.nodeid] = time.process_time() - start


def pytest_sessionfinish():
    """Keep what was measured."""
    if os.environ.get("MUTANT_UNDER_TEST") == "stats":
        MEASURED.write_text(json.dumps(measured))


def pytest_collection_modifyitems(items):
    """Keep what the time allows."""
    for item in items:
        item._nodeid = item.nodeid  # mutmut 3.8 reads the name that pytest 9.1 had
    mutant = os.environ.get("MUTANT_UNDER_TEST", "")
    if mutant == "stats" or not MEASURED.exists():
        return
    seconds = json.loads(MEASURED.read_text())
    items.sort(key=lambda item: seconds.get(item.nodeid, 0.0))
    spent, kept = 0.0, []
    for item in items:
        spent += seconds.get(item.nodeid, 0.0)
        if kept and spent > SECONDS:
            break
        kept.append(item)
    items[:] = kept
    if "__mutmut_" in mutant:
        signal.alarm(WAITING)
        limit = int(time.process_time() + 2 * min(spent, SECONDS) + 3)
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (min(limit, most - 1) if most > 0 else limit, most))
