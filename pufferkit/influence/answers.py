"""The mathematics of each class of beliefs behind one set of functions.

The functions dispatch on the class of beliefs. The implementations are registered next to the
mathematics of each class; this module loads all of them, so import the functions from here.

====================  ==========================================================================
``class_part``        the part of the influence curve that holds for a whole class at once
``record_loss``       the loss when all named entries spend the same
====================  ==========================================================================
"""

from __future__ import annotations

from pufferkit.influence.curve import regions  # noqa: F401  (registers implementations)
from pufferkit.influence.curve.class_parts import class_part
from pufferkit.influence.curve.graphs import record_loss

__all__ = ["class_part", "record_loss"]
