"""Answers by brute force from the definitions, kept as numbers. Nodes count from 1."""

import json
from pathlib import Path
from typing import NamedTuple


class Case(NamedTuple):
    initial: list[float]
    transition: list[list[float]]
    length: int
    node: int
    left: int | None = None
    right: int | None = None
    influence: float | None = None
    epsilon: float | None = None
    scale: float | None = None


_STORED = json.loads(Path(__file__).with_suffix(".json").read_text())


def _of_chains(name: str) -> list[Case]:
    return [
        Case(chain["initial"], chain["transition"], chain["length"], **own)
        for chain in _STORED[name]
        for own in chain["cases"]
    ]


def _parents(stored: dict) -> dict:
    return {node: tuple(own) for node, own in stored.items()}


def _tables(stored: dict) -> dict:
    return {node: {tuple(given): row for given, row in rows} for node, rows in stored.items()}


INFLUENCE = _of_chains("influence")
QUILT_EXACT = _of_chains("quilt_exact")
NETWORKS = [
    (_parents(own["parents"]), _tables(own["tables"]), own["epsilon"], own["scale"])
    for own in _STORED["networks"]
]
"""Parents, tables, epsilon and the scale of the best quilts."""
