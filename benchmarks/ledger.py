"""Spends against a bare transaction of the same durability, and a session's releases."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable

import pufferkit as pk


def per_second(act: Callable[[], object], count: int) -> float:
    """How often in a second."""
    act()
    start = time.perf_counter()
    for _ in range(count):
        act()
    return count / (time.perf_counter() - start)


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


def main(count: int = 100, server: str | None = None) -> None:
    """Print spends a second, and milliseconds a release early and late."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"SQLite": (f"{folder}/l.db", bare_sqlite(f"{folder}/bare.db"))}
        if server is not None:
            places["PostgreSQL"] = (server, bare_server(server))
        for name, (url, bare) in places.items():
            with pk.Ledger(url) as ledger:
                account = f"bench {time.time_ns()}"
                ledger.open_account(account, 1e6)
                ours = per_second(lambda: ledger.spend(account, 0.001), count)  # noqa: B023
                limit = per_second(bare, count)
                times = limit / ours
                print(f"{name}: {ours:.0f} spends a second, bare {limit:.0f}, {times:.1f} times")
        chain = pk.MarkovChain.steady([[0.9, 0.08, 0.02], [0.1, 0.8, 0.1], [0.05, 0.35, 0.6]])
        hours = 4 * count
        data = chain.sample(60 * hours, seed=1).tolist()
        with pk.Ledger(f"{folder}/session.db") as ledger:
            session, seconds = pk.Session(data, chain, 1.2, ledger), []
            for n in range(hours):
                start = time.perf_counter()
                query = pk.histogram([0, 1, 2], 60)
                session.release(query, 0.5, window=(60 * n + 1, 60 * n + 60))
                seconds.append(time.perf_counter() - start)
        middle = sorted(seconds[20:60])[20], sorted(seconds[-40:])[20]
        print(f"a session's release: {1e3 * middle[0]:.1f} ms after 40 others, ", end="")
        print(f"{1e3 * middle[1]:.1f} ms after {hours}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:3])
