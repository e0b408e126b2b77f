"""How a long computation says how far it is."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with how many entries are done, and of how many."""
