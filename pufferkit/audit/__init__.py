"""Attackers, and measured privacy against promised privacy.

>>> import pufferkit as pk
>>> from pufferkit.audit import audit, exact_loss
>>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
>>> noise = pk.influence_curve(chain, pk.count(1, lengths=5), epsilon=1)
>>> round(exact_loss(noise), 6)
1.0
>>> audit(noise, trials=5000).verdict
'passed'

Compiled kernels are loaded only when an attacker needs them.
"""

from pufferkit.audit.attackers import Attacker, ForwardBackward, SingleBit, Viterbi
from pufferkit.audit.auditor import audit, exact_loss, worst_case
from pufferkit.audit.limits import (
    charged_epsilon,
    clopper_pearson,
    prior_odds,
    proven_epsilon,
    success_bound,
)
from pufferkit.audit.report import Audit, LocalMechanism, WorstCase
from pufferkit.audit.trained_attacker import TrainedAttack, trained_attack

__all__ = [
    "Attacker",
    "Audit",
    "ForwardBackward",
    "LocalMechanism",
    "SingleBit",
    "TrainedAttack",
    "Viterbi",
    "WorstCase",
    "audit",
    "charged_epsilon",
    "clopper_pearson",
    "exact_loss",
    "prior_odds",
    "proven_epsilon",
    "success_bound",
    "trained_attack",
    "worst_case",
]
