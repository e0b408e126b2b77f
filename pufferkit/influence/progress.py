"""Progress of long computations."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the number of steps done, and their total."""

NamedProgress = Callable[[str, int, int], None]
"""The same of several computations: first which one."""

TextProgress = Callable[[str], None]
"""Called with what is being done, in words."""
