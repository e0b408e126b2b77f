"""Figures: rows in, figure out. The only importer of matplotlib."""

from pufferkit.plots.answers import release_figure, simulation_figure
from pufferkit.plots.belief_figures import days_figure
from pufferkit.plots.canvas import FORMATS, check_picture, panels, picture
from pufferkit.plots.pictures import figure_of
from pufferkit.plots.plans import (
    audit_figure,
    error_figure,
    influence_figure,
    pair_figure,
    plan_figure,
    profile_figure,
)
from pufferkit.plots.release_report import image, page, release_report

__all__ = [
    "FORMATS",
    "audit_figure",
    "check_picture",
    "days_figure",
    "error_figure",
    "figure_of",
    "image",
    "influence_figure",
    "page",
    "pair_figure",
    "panels",
    "picture",
    "plan_figure",
    "profile_figure",
    "release_figure",
    "release_report",
    "simulation_figure",
]
