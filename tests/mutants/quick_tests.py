"""A pytest plugin for runs on mutants: the quickest tests first, and only so many seconds of them.

A mutant that survives is one that these tests do not notice, so the rates are lower bounds. A
mutant that runs for ever is stopped by the processor time it used, never by the clock: other work
on the machine makes nothing look killed.
"""

import json
import os
import resource
import time
from pathlib import Path

SECONDS = 8.0
STATISTICS = Path("mutmut-stats.json")


def pytest_collection_modifyitems(items):
    """Keep what the time allows, as measured when mutmut ran all of them."""
    for item in items:
        item._nodeid = item.nodeid  # mutmut 3.8 reads the name that pytest 9.1 had
    mutant = os.environ.get("MUTANT_UNDER_TEST", "")
    if mutant == "stats" or not STATISTICS.exists():
        return
    durations = json.loads(STATISTICS.read_text())["duration_by_test"]
    items.sort(key=lambda item: durations.get(item.nodeid, 0.0))
    spent, kept = 0.0, []
    for item in items:
        spent += durations.get(item.nodeid, 0.0)
        if kept and spent > SECONDS:
            break
        kept.append(item)
    items[:] = kept
    if "__mutmut_" not in mutant:
        return
    limit = int(time.process_time() + 2 * min(spent, SECONDS) + 4)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (min(limit, most - 1) if most > 0 else limit, most))
