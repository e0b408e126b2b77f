"""An attacker that knows no model: boosting, trained on public people and real releases of them.

Public series are cut into windows as long as the query. Each is released with the noise of the
calibration, and gradient boosting learns to tell the middle entry from the release. It is judged on
people it did not learn from. Who believes in the right model learns at least as much from one
release, so that a trained attacker above the promise refutes the beliefs, and one below proves
nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from pufferkit.audit.limits import clopper_pearson
from pufferkit.data.series import Series
from pufferkit.data.table import Table
from pufferkit.errors import NotApplicable
from pufferkit.mechanisms.calibration import Calibration
from pufferkit.records import Report
from pufferkit.threads import one_thread

MOST_WINDOWS = 20_000
"""Most windows that are released."""

_LEAST = 50


@dataclass(frozen=True, repr=False)
class TrainedAttack(Report):
    """What boosting learned about an entry from releases of people it was not trained on."""

    promise: float
    """Epsilon of the calibration."""
    windows: int
    """Releases it was judged on."""
    success: float
    """Share of them in which it names the value of the middle entry."""
    baseline: float
    """The same without any release: always the most frequent value."""
    proven: float
    """Lower bound on the loss that its guesses show, at 95% for all values together; 0 if none."""
    value: Hashable
    """The value for which that is largest."""

    @property
    def passed(self) -> bool:
        """Whether it shows no more than was promised."""
        return self.proven <= self.promise

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def caption(self) -> str:
        """What was learned, if it is within the promise."""
        return self._found if self.passed else ""

    def warnings(self) -> list[str]:
        """The same, if it is above."""
        return [] if self.passed else [self._found]

    @property
    def _found(self) -> str:
        verdict = "within" if self.passed else "ABOVE"
        return (
            f"trained attacker: names the entry in {self.success:.1%} of {self.windows:,} "
            f"releases, {self.baseline:.1%} without them; shows a loss of {self.proven:.3g} or "
            f"more, {verdict} the promised {self.promise:g}"
        )


def trained_attack(
    calibration: Calibration, people: Table | Sequence[Series], *, seed: int = 0
) -> TrainedAttack:
    """Train boosting on half of the people and attack releases of the other half.

    Needs scikit-learn, the extra ``checks``, a query about one segment without gaps, and public
    people with enough windows of its length.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415
    except ImportError:
        raise NotApplicable(
            "a trained attacker needs scikit-learn; install it with pip install 'pufferkit[checks]'"
        ) from None
    query = calibration.query
    if len(query.lengths) != 1 or query.chooses:
        raise NotApplicable("a trained attacker needs noisy numbers about one segment")
    each = (
        [people.series(name) for name in people.subjects] if isinstance(people, Table) else people
    )
    half = len(each) // 2
    if half < 1:
        raise NotApplicable("a trained attacker needs two people: one to learn from, one to attack")
    learned, attacked = (_released(calibration, part) for part in (each[:half], each[half:]))
    if min(len(learned[1]), len(attacked[1])) < _LEAST or np.unique(learned[1]).size < 2:
        raise NotApplicable(
            f"people: have {len(learned[1])} and {len(attacked[1])} windows of {query.longest} "
            f"entries; a trained attacker needs {_LEAST} of each, and two values; give "
            "more people or a shorter length"
        )
    model = HistGradientBoostingClassifier(max_iter=100, max_leaf_nodes=15, random_state=seed)
    with one_thread():  # scikit-learn may have been loaded just now
        guesses = model.fit(*learned).predict(attacked[0])
    truth, values = attacked[1], np.unique(attacked[1])
    common = np.bincount(learned[1]).argmax()
    proven = {int(x): _shown(guesses == x, truth == x, 0.05 / len(values)) for x in values}
    value = max(proven, key=lambda x: proven[x])
    return TrainedAttack(
        calibration.epsilon,
        len(truth),
        float((guesses == truth).mean()),
        float((truth == common).mean()),
        proven[value],
        each[0].states[value],
    )


def _released(calibration: Calibration, people: Sequence[Series]) -> tuple[Any, Any]:
    """Releases of all windows of these people, and the codes of their middle entries."""
    length = calibration.query.longest
    answers: list[Any] = []
    middles: list[int] = []
    for person in people:
        start = 0
        for segment in person.segments:
            for first in range(0, len(segment) - length + 1, length):
                window = person.window(start + first + 1, start + first + length)
                if window.missing or len(answers) >= MOST_WINDOWS:
                    continue
                answers.append(tuple(calibration.query.exact(window)))
                middles.append(int(segment[first + length // 2]))
            start += len(segment)
    if not answers:
        return np.zeros((0, 1)), np.zeros(0, dtype=int)
    noisy = calibration.noisy(answers, range(len(answers)))
    return np.array(noisy, dtype=float).reshape(len(answers), -1), np.array(middles)


def _shown(said: Any, true: Any, error: float) -> float:
    """Lower bound on the log-ratio of P(said) or P(not said) given the value and given others."""
    if true.all() or not true.any():
        return 0.0
    (low, high), (least, most) = (
        clopper_pearson(int(said[at].sum()), int(at.sum()), error / 4) for at in (true, ~true)
    )
    ratios = [(low, most), (least, high), (1 - high, 1 - least), (1 - most, 1 - low)]
    return max([0.0, *(log(above / below) for above, below in ratios if above > 0 and below > 0)])
