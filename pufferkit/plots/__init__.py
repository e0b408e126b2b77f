"""Pictures: rows in, figure out. The only importer of matplotlib."""

from pufferkit.plots.canvas import FORMATS, check_picture, panels, picture
from pufferkit.plots.charts import experiment_figure
from pufferkit.plots.figures import (
    attack_figure,
    pair_figure,
    plan_figure,
    release_figure,
)

__all__ = [
    "FORMATS",
    "attack_figure",
    "check_picture",
    "experiment_figure",
    "pair_figure",
    "panels",
    "picture",
    "plan_figure",
    "release_figure",
]
