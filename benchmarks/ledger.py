"""Spends against a bare transaction of the same durability, turn by turn, on both engines.

    python benchmarks/ledger.py 1000 postgresql://postgres@127.0.0.1:5432/postgres

The bare transaction writes one row of one letter, with the file or the connection held open. Each
is timed alone, in turn with the other, and the middle of all times is shown: of the clock, and of
this process. Then many accounts in one transaction, and what a session's release takes.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median

import pufferkit as pk
from pufferkit.account.ledger import Charge


def timed(act: Callable[[], object]) -> tuple[float, float]:
    """Microseconds of the clock and of this process."""
    start, busy = time.perf_counter(), time.process_time()
    act()
    return 1e6 * (time.perf_counter() - start), 1e6 * (time.process_time() - busy)


def in_turn(
    ours: Callable[[], object], bare: Callable[[], object], count: int
) -> list[tuple[float, float]]:
    """The middle time of either, of the clock and of this process."""
    for _ in range(20):
        ours()
        bare()
    times = [(timed(ours), timed(bare)) for _ in range(count)]
    return [(median(t[who][0] for t in times), median(t[who][1] for t in times)) for who in (0, 1)]


def bare_sqlite(path: str) -> Callable[[], object]:
    """One row in a transaction with the write lock, fully synchronised."""
    connection = sqlite3.connect(path, isolation_level=None)
    for line in ("journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {line}")
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")

    def act() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t (text) VALUES ('x')")
        connection.execute("COMMIT")

    return act


def bare_server(url: str) -> Callable[[], object]:
    """The same on PostgreSQL."""
    import psycopg

    connection = psycopg.connect(url)
    connection.execute("CREATE TABLE IF NOT EXISTS bare (n bigserial PRIMARY KEY, text TEXT)")
    connection.commit()

    def act() -> None:
        connection.execute("INSERT INTO bare (text) VALUES ('x')")
        connection.commit()

    return act


def many(ledger: pk.Ledger, accounts: int) -> float:
    """Accounts charged in one second, all in one transaction."""
    names = [f"many {time.time_ns()} {n}" for n in range(accounts)]
    ledger.open_accounts(names, 1.0, rule="composed")
    body = {"what": "a count", "window": [1, 100]}
    charges = [Charge(n, "key", 10, 10, body, 1, value={"value": [1.0]}) for n in names]
    return accounts / (timed(lambda: ledger.charge_many(charges))[1] / 1e6)


def main(count: int = 300, server: str | None = None) -> None:
    """Print microseconds of a spend and of a bare transaction, and milliseconds of a release."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"SQLite": (f"{folder}/l.db", bare_sqlite(f"{folder}/bare.db"))}
        if server is not None:
            places["PostgreSQL"] = (server, bare_server(server))
        for name, (url, bare) in places.items():
            with pk.Ledger(url) as ledger:
                account = f"bench {time.time_ns()}"
                ledger.open_account(account, 1e6)
                ours, limit = in_turn(lambda: ledger.spend(account, 0.001), bare, count)  # noqa: B023
                print(
                    f"{name}: a spend {ours[0]:.0f} us ({ours[1]:.0f} of CPU), bare {limit[0]:.0f} "
                    f"({limit[1]:.0f}), {ours[0] / limit[0]:.2f} times ({ours[1] / limit[1]:.2f})"
                )
                print(f"{name}: {many(ledger, 20_000):.0f} charges with values a second of CPU")
        chain = pk.MarkovChain.steady([[0.9, 0.08, 0.02], [0.1, 0.8, 0.1], [0.05, 0.35, 0.6]])
        hours = min(4 * count, 1600)
        data = chain.sample(60 * hours, seed=1).tolist()
        with pk.Ledger(f"{folder}/session.db") as ledger:
            account, seconds = pk.Account(ledger, "data", 1.2), []
            for n in range(hours):
                query = pk.histogram([0, 1, 2], 60)
                window = (60 * n + 1, 60 * n + 60)
                release = lambda: pk.release(  # noqa: E731
                    data,
                    chain,
                    query,  # noqa: B023
                    0.5,
                    account=account,
                    window=window,  # noqa: B023
                )
                seconds.append(timed(release)[1])
        early, late = median(seconds[20:60]), median(seconds[-40:])
        print(f"a release from an account: {early / 1e3:.1f} ms of CPU after 40 others, ", end="")
        print(f"{late / 1e3:.1f} ms after {hours}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:3])
