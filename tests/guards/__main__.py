"""Print how far scales are from those of the table, and how much of epsilon is lost where.

``python -m tests.guards scales`` compares with the table, ``python -m tests.guards registry`` walks
classes, questions, secrets and gaps; without either, both. By default a part, with ``--all``
everything.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from math import inf
from statistics import median

from tests.guards.beliefs import BELIEFS
from tests.guards.registry import Cell, broken, walk
from tests.guards.registry import cells as every_cell
from tests.guards.registry import quick as quick_cells
from tests.guards.scales import Row, all_rows, kept, quick, ratio, scale_of, stored, write


def shown(title: str, ratios: dict[str, list[float]]) -> None:
    """A line for each name: rows, and the median, least and largest ratio."""
    print(f"\n{title:26} {'rows':>6} {'median':>8} {'least':>8} {'largest':>8}")
    for name in sorted(ratios):
        own = ratios[name]
        ends = f"{median(own):8.4f} {min(own):8.4f} {max(own):8.4f}"
        print(f"{name:26} {len(own):6d} {ends}")


def compare(rows: list[Row]) -> None:
    """Ratios of today's scales to those of the table, by class, question, secret and mechanism."""
    before = stored()
    tables: dict[str, dict[str, list[float]]] = {
        title: defaultdict(list) for title in ("class", "question", "secret", "over", "mechanism")
    }
    refused, served = [], []
    for row in rows:
        was = before[row]
        now = scale_of(row)
        own = ratio(was, now)
        if own == inf:
            refused.append(row)
        elif isinstance(was, str) and not isinstance(now, str):
            served.append(row)
        elif not isinstance(was, str):
            names = (BELIEFS[row.belief].kind, row.question, row.secret, row.over, row.mechanism)
            for title, name in zip(tables, names, strict=True):
                tables[title][name].append(own)
    for title, ratios in tables.items():
        shown(title, ratios)
    for what, ones in (("refused now", refused), ("served now", served)):
        print(f"\n{what}: {len(ones)}")
        for row in ones[:20]:
            print("  ", " | ".join(map(str, row)))


def walked(cells: list[Cell], evaluations: int) -> None:
    """Cells served and refused, and the largest loss over epsilon, by each of the names."""
    seen = walk(cells, evaluations)
    for title in Cell._fields:
        print(f"\n{title:26} {'cells':>6} {'refused':>8} {'median':>8} {'largest':>9}")
        names = dict.fromkeys(getattr(own.cell, title) for own in seen)
        for name in names:
            own = [one for one in seen if getattr(one.cell, title) == name]
            losses = [one.ratio for one in own if one.ratio is not None]
            ends = f"{median(losses):8.4f} {max(losses):9.6f}" if losses else ""
            print(f"{name:26} {len(own):6d} {len(own) - len(losses):8d} {ends}")
    wrong = broken(seen)
    print(f"\n{len(seen)} cells, {len(wrong)} wrong")
    print("\n".join(wrong))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.guards")
    parser.add_argument("what", nargs="?", choices=["scales", "registry"], help="one of the two")
    parser.add_argument("--all", action="store_true", help="every row and cell")
    parser.add_argument("--evaluations", type=int, default=12, help="members tried in a cell")
    parser.add_argument("--rewrite", action="store_true", help="keep today's scales")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.rewrite:
        computed = ((row, scale_of(row)) for row in all_rows())
        write((row, scale) for row, scale in computed if kept(row, scale))
        return
    if given.what != "registry":
        rows = list(stored())
        compare(rows if given.all else quick(rows))
    if given.what != "scales":
        walked(every_cell() if given.all else quick_cells(every_cell()), given.evaluations)


if __name__ == "__main__":
    main()
