"""No change makes noise larger, or smaller without a reason that was checked.

``scales.csv`` has the scales of a version whose numbers were attacked for long. More noise is a
loss for users; less is where a broken promise hides. ``accepted.csv`` names the rows that differ,
each with the least and the most of its ratio and the reason; those with less noise are attacked by
definition.
"""

import pytest

from tests.guards.attacks import LOOSE, attacked
from tests.guards.beliefs import BELIEFS
from tests.guards.scales import (
    LEAST,
    accepted,
    allowed,
    quick,
    ratio,
    scale_of,
    stored,
)

pytestmark = pytest.mark.filterwarnings("ignore")

BEFORE = stored()
QUICK = quick(BEFORE)
PARTS = 12


def changed(rows):
    """Rows whose noise is not that of the table, nor accepted; or too little by definition."""
    out = []
    for row in rows:
        now = scale_of(row)
        own, (least, most) = ratio(BEFORE[row], now), allowed(row)
        names = " | ".join(map(str, row))
        if not least <= own <= most:
            out.append(f"{names}: {BEFORE[row]} before, {now} now")
        elif own < LEAST and attacked(row, now) > row.epsilon * (1 + 1e-9):
            out.append(f"{names}: {now} is too little noise")
    return out


@pytest.mark.parametrize("part", range(PARTS))
def test_noise_is_that_of_the_table_for_every_two_names(part):
    different = changed(QUICK[part::PARTS])
    assert not different, "\n".join(different)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_noise_is_that_of_the_table(part):
    quick_ones = set(QUICK)
    different = changed([row for row in BEFORE if row not in quick_ones][part::PARTS])
    assert not different, "\n".join(different)


def test_accepted_rows_are_rows_with_a_reason():
    for own in accepted():
        assert own.reason
        assert own.least <= own.most
        assert any(own.speaks_of(row) for row in BEFORE), own


def test_no_pipeline_that_is_private_for_each_entry_loses_more_than_its_epsilon():
    rows = [row for row in QUICK if row.mechanism == "entry_epsilon"]
    served = [row for row in rows if not isinstance(BEFORE[row], str)]
    losses = [attacked(row, scale_of(row), 10) / row.epsilon for row in served[:20]]
    assert max(losses) <= 1 + 1e-9
    assert max(losses) > 0.99


@pytest.mark.slow
def test_the_attack_finds_noise_that_is_a_hundredth_too_little():
    """So that its silence means something: within a hundredth of epsilon for most beliefs."""
    closest = {}
    for row in QUICK:
        kind, scale = BELIEFS[row.belief].kind, BEFORE[row]
        if closest.get(kind, 0) < 0.99 and not isinstance(scale, str):
            found = attacked(row, scale) / row.epsilon
            closest[kind] = max(closest.get(kind, 0), found)
    weak = {kind: found for kind, found in closest.items() if found < 0.99}
    assert set(weak) <= LOOSE, weak
