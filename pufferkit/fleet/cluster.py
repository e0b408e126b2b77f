"""`release_each` on a Spark cluster: the driver calibrates and pays, the executors draw."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np

from pufferkit.beliefs.provenance import check_not_counted_from
from pufferkit.fleet.accounts import Accounts
from pufferkit.fleet.plan import LIPSCHITZ, Run
from pufferkit.fleet.releases import note_of
from pufferkit.fleet.rows import ON_CLUSTER, Asked, account_names, dues_of
from pufferkit.frames.spark import ClusterTable, Noise


def release_on_cluster(
    table: ClusterTable, run: Run, accounts: Accounts | None, prefix: str, storage: str | None
) -> Any:
    """One noisy row for each subject and window, as a DataFrame that reads committed files.

    1. The cluster counts; numbers of entries, which are public, come to the driver.
    2. The driver calibrates and charges every account, in one transaction.
    3. The executors draw the noise and write the rows to a folder of this attempt.
    4. The ledger notes the folder. The first one noted is the release, for ever; another attempt
       that was under way at the same time is never handed over.

    A lost executor or a task that runs twice may draw again, but only one attempt of each task is
    committed, and nobody is given a row before the whole job has been. A driver that dies before
    step 4 leaves a charge and perhaps files that were never handed over; delete them.
    """
    if storage is None:
        raise ValueError(
            "storage: name a folder that driver and executors can reach; noise is written there "
            "once, so that Spark cannot draw it again"
        )
    table.refuse_unknown(run.beliefs.states)
    moves = table.transitions(run.beliefs.states)
    check_not_counted_from(run.beliefs.sources, moves, run.beliefs.states)
    sizes = table.sizes()
    asked = Asked.of(sizes, sizes.pieces)
    used, calibrations = run.calibrations(sizes.longest)
    scales = {
        int(longest): LIPSCHITZ * calibrations[int(length)].scale
        for longest, length in zip(sizes.longest, used, strict=True)
    }
    noise = Noise(scales, LIPSCHITZ, float(sizes.totals.max()), run.query == "frequencies")
    states = run.beliefs.states
    labels = [str(state) for state in states]
    path = f"{storage.rstrip('/')}/{run.identity[:16]}-{uuid.uuid4().hex[:16]}"
    note = note_of(run.beliefs.is_private, sizes.independent_after)
    if accounts is None:
        return table.write_noisy(path, states, labels, noise, note)
    record = f"{prefix}{ON_CLUSTER}"
    accounts.open([*account_names(sizes, prefix), record])
    rows = np.arange(len(asked.owner))
    dues = dues_of(sizes, asked, rows, used, calibrations, prefix)
    body = {
        "query": f"{run.query} of {len(sizes.subjects)} subjects on a cluster",
        "mechanism": run.mechanism,
        "scale": max(scales.values()),
    }
    key = accounts.pay_together(dues, record, body)
    stored = accounts.ledger.find(record, key)
    if stored is None:
        table.write_noisy(path, states, labels, noise, note)
        stored = accounts.ledger.store(record, key, {"path": path, "rows": len(dues)})
    return _stored(table, stored.body)


def _stored(table: ClusterTable, body: Any) -> Any:
    try:
        found = table.read(body["path"])
        rows = found.count()
    except Exception as error:
        raise ValueError(
            f"storage: the values of this run should be in {body['path']}, but cannot be read "
            f"({type(error).__name__}); they are not drawn again"
        ) from None
    if rows != body["rows"]:
        raise ValueError(
            f"storage: {body['path']} has {rows} rows instead of {body['rows']}; it was changed"
        )
    return found
