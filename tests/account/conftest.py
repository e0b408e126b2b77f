"""Calibrations are worked out once: tests here are about what follows them."""

from tests.strategies.solved_once import solved_once  # noqa: F401
