"""How long computations say how far they are."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with how many steps are done, and of how many."""
