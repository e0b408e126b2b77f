"""Figures: rows in, figure out. The only importer of matplotlib."""

from pufferkit.plots.belief_figures import days_figure, influence_figure
from pufferkit.plots.canvas import FORMATS, check_picture, panels, picture
from pufferkit.plots.experiment_figures import experiment_figure
from pufferkit.plots.pictures import figure_of
from pufferkit.plots.release_figures import (
    attack_figure,
    audit_figure,
    error_figure,
    pair_figure,
    plan_figure,
    release_figure,
    simulation_figure,
)

__all__ = [
    "FORMATS",
    "attack_figure",
    "audit_figure",
    "check_picture",
    "days_figure",
    "error_figure",
    "experiment_figure",
    "figure_of",
    "influence_figure",
    "pair_figure",
    "panels",
    "picture",
    "plan_figure",
    "release_figure",
    "simulation_figure",
]
