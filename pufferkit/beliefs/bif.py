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
from itertools import product

import numpy as np

from pufferkit.beliefs.graph import Node, NodeValues
from pufferkit.checks import Floats

_TOKEN = re.compile(r'"([^"]*)"|([{}()\[\];|,])|([^\s{}()\[\];|,"]+)')
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_MOST_OFF = 1.01e-3  # rows whose sum is further from one are refused, whatever their digits
_MARKS = frozenset("{}()[];|,")

_SHAPES = {"variable": "x", "probability": r"\(x(\|x(,x)*)?\)"}
_EXAMPLES = "'variable node' or 'probability ( node | parent, parent )'"

Parsed = tuple[
    dict[Node, tuple[Node, ...]], dict[Node, dict[NodeValues, Floats]], dict[Node, tuple[str, ...]]
]


def read_bif(text: str) -> Parsed:
    """Parents, tables and values of the network in a BIF text."""
    values: dict[Node, tuple[str, ...]] = {}
    listed: list[tuple[str, tuple[Node, ...], list[list[str]]]] = []
    for kind, head, lines in _blocks(text):
        named = [word for word in head if word not in _MARKS]
        shape = "".join(word if word in _MARKS else "x" for word in head)
        if kind in _SHAPES and not re.fullmatch(_SHAPES[kind], shape):
            raise ValueError(f"bif: expected {_EXAMPLES}, got '{kind} {' '.join(head)}'")
        if kind == "variable":
            values[named[0]] = _states(named[0], lines)
        elif kind == "probability":
            listed.append((named[0], tuple(named[1:]), lines))
        elif kind != "network":
            raise ValueError(
                f"bif: expected 'network', 'variable' or 'probability', got {kind!r}; "
                "is this a BIF file?"
            )
    if not listed:
        raise ValueError("bif: has no 'probability' block; is this a BIF file?")
    for name, own, _ in listed:
        for node in (name, *own):
            if node not in values:
                raise ValueError(f"bif: {node!r} has a probability but no 'variable' block")
    tables: dict[Node, dict[NodeValues, Floats]] = {
        name: _table(name, own, lines, values) for name, own, lines in listed
    }
    return {name: own for name, own, _ in listed}, tables, values


def _blocks(text: str) -> list[tuple[str, list[str], list[list[str]]]]:
    """The kind of each block, what stands before its brace, and its statements."""
    blocks, head, lines, depth = [], list[str](), list[list[str]](), 0
    for match in _TOKEN.finditer(_COMMENT.sub(" ", text)):
        word = match[0] if match[1] is None else match[1]
        depth += (word == "{") - (word == "}")
        if depth == 0 and word == "}":
            kept = [line for line in lines if line and line[0] != "property"]
            blocks.append((head[0] if head else word, head[1:], kept))
            head = []
        elif depth <= 0:
            head.append(word)
        elif depth == 1 and word == "{":
            lines = [[]]
        elif depth == 1 and word == ";":
            lines.append([])
        else:
            lines[-1].append(word)
    if depth or head:
        raise ValueError("bif: the text ends in the middle of a block; the file may be cut off")
    return blocks


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
