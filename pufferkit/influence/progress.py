"""How long computations say how far they are."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with how many steps are done, and of how many."""

NamedProgress = Callable[[str, int, int], None]
"""The same of several computations: first which one."""

TextProgress = Callable[[str], None]
"""Called with what is being done, in words."""
