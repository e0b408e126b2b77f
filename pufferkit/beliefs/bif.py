"""Networks from BIF files, the Bayesian Interchange Format.

The statements that are read::

    variable smoke { type discrete [ 2 ] { yes, no }; }
    probability ( lung | smoke ) { (yes) 0.1, 0.9; (no) 0.01, 0.99; }

and, in place of rows, ``table`` (all numbers, the last parent varying fastest and the variable
itself slowest) and ``default`` (for rows not listed). Properties and comments are skipped.

Files print few digits, so a row counts as a distribution if it sums to one within the digits it
shows; it is then rescaled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import numpy as np

from pufferkit.beliefs.graph import Node, NodeValues
from pufferkit.checks import Floats

_TOKEN = re.compile(r'"([^"]*)"|([{}()\[\];|,])|([^\s{}()\[\];|,"]+)')
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_MOST_OFF = 1.01e-3  # rows whose sum is further from one are refused, whatever their digits
_MARKS = frozenset("{}()[];|,")

Parsed = tuple[
    dict[Node, tuple[Node, ...]], dict[Node, dict[NodeValues, Floats]], dict[Node, tuple[str, ...]]
]


def read_bif(text: str) -> Parsed:
    """Parents, tables and values of the network in a BIF text."""
    reader = _Tokens(text)
    values: dict[Node, tuple[str, ...]] = {}
    blocks: list[tuple[str, tuple[Node, ...], list[list[str]]]] = []
    for word in reader:
        if word == "variable":
            name = reader.name()
            values[name] = _states(name, reader.block())
        elif word == "probability":
            reader.expect("(")
            name, parents = reader.name(), []
            mark = reader.mark("|,)")
            while mark != ")":
                parents.append(reader.name())
                mark = reader.mark(",)")
            blocks.append((name, tuple(parents), reader.block()))
        elif word == "network":
            while reader.next() != "{":
                pass
            reader.block(opened=True)
        else:
            raise ValueError(
                f"bif: expected 'network', 'variable' or 'probability', got {word!r}; "
                "is this a BIF file?"
            )
    if not blocks:
        raise ValueError("bif: has no 'probability' block; is this a BIF file?")
    tables: dict[Node, dict[NodeValues, Floats]] = {}
    for name, own, lines in blocks:
        for node in (name, *own):
            if node not in values:
                raise ValueError(f"bif: {node!r} has a probability but no 'variable' block")
        tables[name] = _table(name, own, lines, values)
    return {name: own for name, own, _ in blocks}, tables, values


class _Tokens:
    """The tokens of a BIF text, one after another."""

    def __init__(self, text: str) -> None:
        self._tokens = [
            match[1] if match[1] is not None else match[0]
            for match in _TOKEN.finditer(_COMMENT.sub(" ", text))
        ]
        self._place = 0

    def __iter__(self) -> Iterator[str]:
        while self._place < len(self._tokens):
            yield self.next()

    def next(self) -> str:
        if self._place >= len(self._tokens):
            raise ValueError("bif: the text ends in the middle of a block; the file may be cut off")
        self._place += 1
        return self._tokens[self._place - 1]

    def mark(self, allowed: str) -> str:
        token = self.next()
        if token not in _MARKS or token not in allowed:
            listed = " or ".join(repr(mark) for mark in allowed)
            raise ValueError(f"bif: expected {listed}, got {token!r}")
        return token

    def expect(self, mark: str) -> None:
        self.mark(mark)

    def name(self) -> str:
        token = self.next()
        if token in _MARKS:
            raise ValueError(f"bif: expected a name, got {token!r}")
        return token

    def block(self, *, opened: bool = False) -> list[list[str]]:
        """The statements of a block, each a list of words and marks."""
        if not opened:
            self.expect("{")
        statements: list[list[str]] = [[]]
        depth = 1
        while True:
            token = self.next()
            depth += (token == "{") - (token == "}")
            if depth == 0:
                return [
                    statement
                    for statement in statements
                    if statement and statement[0] != "property"
                ]
            if token == ";" and depth == 1:
                statements.append([])
            else:
                statements[-1].append(token)


def _states(name: str, lines: list[list[str]]) -> tuple[str, ...]:
    for line in lines:
        if line[:2] == ["type", "discrete"] and "{" in line:
            labels = [word for word in line[line.index("{") + 1 :] if word not in _MARKS]
            count = line[3] if line[2] == "[" else str(len(labels))
            if count != str(len(labels)):
                raise ValueError(
                    f"bif: variable {name!r} declares {count} values, lists {len(labels)}"
                )
            return tuple(labels)
    raise ValueError(f"bif: variable {name!r} is not 'type discrete'; only discrete ones are read")


def _table(
    name: str,
    parents: tuple[Node, ...],
    lines: list[list[str]],
    values: dict[Node, tuple[str, ...]],
) -> dict[NodeValues, Floats]:
    keys: list[NodeValues] = list(product(*(values[parent] for parent in parents)))
    size = len(values[name])
    rows: dict[NodeValues, Floats] = {}
    default: Floats | None = None
    for line in lines:
        if line[0] == "(":
            close = line.index(")") if ")" in line else len(line)
            key = tuple(word for word in line[1:close] if word != ",")
            rows[key] = _numbers(name, line[close + 1 :], size, size)
        elif line[0] == "table":
            whole = _numbers(name, line[1:], size * len(keys), size)
            rows.update(zip(keys, whole.reshape(size, -1).T, strict=True))
        elif line[0] == "default":
            default = _numbers(name, line[1:], size, size)
        else:
            raise ValueError(f"bif: probability of {name!r}: cannot read {' '.join(line)!r}")
    if default is not None:
        rows = {**dict.fromkeys(keys, default), **rows}
    return rows


def _numbers(name: str, words: list[str], count: int, size: int) -> Floats:
    """Numbers in a statement; rows that sum to one within the printed digits are rescaled."""
    shown = [word for word in words if word != ","]
    try:
        numbers = np.array([float(word) for word in shown])
    except ValueError as error:
        raise ValueError(f"bif: probability of {name!r}: {error}") from None
    if len(numbers) != count:
        raise ValueError(
            f"bif: probability of {name!r}: {len(numbers)} numbers where {count} are required"
        )
    columns = numbers.reshape(size, -1)
    sums = columns.sum(axis=0)
    digits = size * 0.5 * 10.0 ** -max(_decimals(word) for word in shown)
    close = (np.abs(sums - 1) <= min(digits, _MOST_OFF)) & (columns >= 0).all(axis=0)
    scaled: Floats = np.where(close, columns / np.where(close, sums, 1.0), columns).ravel()
    return scaled


def _decimals(word: str) -> int:
    """How many decimals a number has."""
    mantissa, _, exponent = word.lower().partition("e")
    return len(mantissa.partition(".")[2]) - int(exponent or 0)
