"""The mathematics of each class of beliefs behind one set of functions.

The functions dispatch on the class of beliefs. The implementations are registered next to the
mathematics of each class; this module loads all of them, so import the functions from here.

====================  ==========================================================================
``hardest_quilt``     the hardest node and its best quilt, [Q] Algorithms 2 and 3
``quilt_bound``       the best bound by quilts, from mixing where no matrix is known
``influence_between`` bounds on the max-influence of an entry of a chain on endpoints
``class_part``        the part of the influence curve that holds for a whole class at once
``record_loss``       the loss when all named entries spend the same
====================  ==========================================================================
"""

from __future__ import annotations

from pufferkit.influence.curve import regions  # noqa: F401  (registers implementations)
from pufferkit.influence.curve.class_parts import class_part
from pufferkit.influence.curve.trees import record_loss
from pufferkit.influence.quilts import (  # noqa: F401  (they register theirs)
    blocks,
    fields,
    mixing,
    networks,
)
from pufferkit.influence.quilts.hardest import (
    QuiltBound,
    QuiltSearch,
    hardest_quilt,
    influence_between,
    quilt_bound,
)

__all__ = [
    "QuiltBound",
    "QuiltSearch",
    "class_part",
    "hardest_quilt",
    "influence_between",
    "quilt_bound",
    "record_loss",
]
