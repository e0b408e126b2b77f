"""What a run over many subjects asks and how much noise that takes. Sees lengths, never counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pufferkit import checks
from pufferkit.beliefs.chain_class import ChainClass, as_chain_class
from pufferkit.beliefs.provenance import check_not_counted_from
from pufferkit.data.queries import histogram
from pufferkit.data.table import Counts, Table, Windows
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.mechanisms.plan import MECHANISMS
from pufferkit.records import digest

QUERIES = ("histogram", "frequencies")
MECHANISM_NAMES = (
    "influence_curve",
    "markov_quilt",
    "markov_quilt_approx",
    "markov_quilt_approx_tight",
    "gk16",
    "group_dp",
)

FRESH_STARTS = (
    "every segment is taken to start so, also behind a declared break; "
    "ChainClass.any_start does not ask for that"
)
_MOST_CALIBRATIONS = 64


@dataclass(frozen=True)
class Run:
    """What is asked, of whom and under which name. Equal runs are the same run."""

    what: str
    beliefs: ChainClass
    epsilon: float
    query: str
    mechanism: str
    label: str
    windows: Windows | None

    @classmethod
    def of(
        cls,
        what: str,
        beliefs: Any,
        epsilon: float,
        query: str,
        mechanism: str,
        label: str,
        windows: Windows | None,
    ) -> Run:
        """A checked run."""
        if query not in QUERIES:
            raise ValueError(f"query: must be one of {', '.join(QUERIES)}, got {query!r}")
        if mechanism not in MECHANISM_NAMES:
            known = ", ".join(MECHANISM_NAMES)
            raise ValueError(f"mechanism: {mechanism!r} is none of {known}")
        theta = as_chain_class(beliefs)
        if len(theta.states) < 2:
            raise ValueError("beliefs: a histogram needs at least two states")
        return cls(what, theta, checks.privacy(epsilon), query, mechanism, str(label), windows)

    @cached_property
    def beliefs_digest(self) -> str:
        """Of the class Theta."""
        return digest(self.beliefs.to_dict())

    @cached_property
    def identity(self) -> str:
        """The same for the same run, also after a crash."""
        return digest(
            {
                "what": self.what,
                "beliefs": self.beliefs_digest,
                "epsilon": self.epsilon,
                "query": self.query,
                "mechanism": self.mechanism,
                "label": self.label,
                "windows": None if self.windows is None else self.windows.to_dict(),
            }
        )

    def notes(self, table: Table) -> tuple[str, ...]:
        """What a reader must know about the beliefs, and about what they say of this table."""
        fixed = (
            self.beliefs.fixed_start if len(table.segment_lengths) > len(table.subjects) else None
        )
        start = (f"{fixed} has a fixed initial distribution, and {FRESH_STARTS}",) if fixed else ()
        return (*self.beliefs.caveats, *start, *table.notes)

    def key(self, window: int) -> str:
        """Of the release over one window, the same for every subject."""
        return digest({"run": self.identity, "window": window})

    def calibration(self, longest: int) -> Calibration:
        """The noise for a histogram over segments of at most this length.

        Not for a count in place of it: a count holds the other states at distance 0, and noise that
        is calibrated by these distances would leave them apart in a histogram.
        """
        query = histogram(self.beliefs.states, longest)
        return MECHANISMS[self.mechanism](self.beliefs, query, self.epsilon)

    def calibrations(self, longest: Counts) -> tuple[Counts, dict[int, Calibration]]:
        """For each subject the length it is calibrated for, and the calibration of each length.

        Noise for a longer segment also hides the entries of a shorter one ("the longest is the
        hardest"). So where there are many different lengths, each is raised to one of a few.
        """
        used = longest
        if len(np.unique(longest)) > _MOST_CALIBRATIONS:
            # Three binary digits are kept: at most 8 lengths in each doubling, none over the top.
            step = 2 ** np.maximum(0, np.floor(np.log2(longest)).astype(np.int64) - 3)
            used = np.minimum(-(-longest // step) * step, longest.max())
        return used, {int(n): self.calibration(int(n)) for n in np.unique(used)}


def aligned(table: Table, beliefs: ChainClass) -> Counts:
    """The counts of each piece, by the states of the beliefs; not if these were fitted on them."""
    check_not_counted_from(beliefs.sources, table.transitions, table.states)
    place = {state: number for number, state in enumerate(beliefs.states)}
    strange = [
        state
        for number, state in enumerate(table.states)
        if state not in place and table.pieces[:, number].any()
    ]
    if strange:
        raise ValueError(
            f"table: has states {strange} that the beliefs do not know; theirs are "
            f"{list(beliefs.states)}"
        )
    found = np.zeros((len(table.pieces), len(beliefs.states)), dtype=np.int64)
    for number, state in enumerate(table.states):
        if state in place:
            found[:, place[state]] = table.pieces[:, number]
    return found
