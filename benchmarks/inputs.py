"""Data for the jobs of `table.py`, and peers that do the same with nothing around it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import numpy as np
import polars as pl

import pufferkit as pk

STATES = 5
COLUMNS = {"subject": "who", "time": "when", "state": "what", "independent_after": 60}


def made(rows: int, subjects: int, seed: int = 0) -> pl.DataFrame:
    """Rows in order, a minute apart: numbers for subjects and times, text for states."""
    rng = np.random.default_rng(seed)
    each = rows // subjects
    return pl.DataFrame(
        {
            "who": np.repeat(np.arange(subjects), each),
            "when": np.tile(np.arange(each) * 60, subjects),
            "what": rng.integers(0, STATES, each * subjects).astype("U1"),
        }
    )


def in_text(frame: pl.DataFrame) -> pl.DataFrame:
    """The same with text for subjects."""
    return frame.with_columns(who=pl.format("subject {}", "who"))


def in_integers(frame: pl.DataFrame) -> pl.DataFrame:
    """The same with integers for states."""
    return frame.with_columns(what=pl.col("what").cast(pl.Int64))


def bare(frame: pl.DataFrame) -> pl.DataFrame:
    """Transition counts for each subject: no gaps, no checks, no segment lengths."""
    before = pl.col("what").shift(1).over("who", order_by="when")
    linked = frame.lazy().with_columns(before=before).filter(pl.col("before").is_not_null())
    return linked.group_by("who", "before", "what").agg(pl.len()).collect()


def sticky_chain(states: int = 51, stay: float = 10, seed: int = 0) -> np.ndarray:
    """Moves mostly to nearby states, and seldom: mixes in hundreds of steps."""
    rng = np.random.default_rng(seed)
    place = np.arange(states)
    weights = np.exp(-np.abs(place[:, None] - place) / 2) * rng.random((states, states)) + 1e-7
    weights += stay * np.eye(states)
    return weights / weights.sum(axis=1, keepdims=True)


def scan(transition: np.ndarray, epsilon: float, optimum: float) -> float:
    """Least score of the middle node of a long stationary chain, over all a + b - 1 <= optimum.

    The best one can do without the search: tables of log-ratios built once, then every pair (a, b)
    up to the size of the optimum, vectorised. It is even told where to stop.
    """
    most = int(optimum * epsilon)
    distribution = pk.MarkovChain.steady(transition).stationary
    size = len(distribution)
    left, right = np.empty((most + 1, size * size)), np.empty((most + 1, size * size))
    prior = np.log(distribution)[None, :] - np.log(distribution)[:, None]
    power = np.eye(size)
    for n in range(1, most + 1):
        power = power @ transition
        logs = np.log(power)
        right[n] = (logs[:, None, :] - logs[None, :, :]).max(axis=2).ravel()
        left[n] = (prior + (logs.T[:, None, :] - logs.T[None, :, :]).max(axis=2)).ravel()
    best = np.inf
    for a in range(1, most + 1):
        # In pieces that fit the cache: three times quicker than all at once.
        pieces = [right[b : min(b + 64, most + 2 - a)] for b in range(1, most + 2 - a, 64)]
        influence = np.concatenate([(left[a] + piece).max(axis=1) for piece in pieces])
        room = epsilon - influence
        nearby = a + np.arange(len(room))
        scores = np.where(room > 0, nearby / np.where(room > 0, room, 1), np.inf)
        best = min(best, float(scores.min()))
    return best


def bare_sqlite(path: str) -> Callable[[], object]:
    """One row of one letter in a transaction with the write lock, fully synchronised."""
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
