"""Which sampler draws: OpenDP's, one number after another, or our own, many at once.

Both draw the same distributions exactly, from the randomness of the operating system. A call of
OpenDP takes a tenth of a millisecond and each draw ten microseconds; our own takes most of a
millisecond for its first draw and a tenth of a microsecond for each of a million. So releases of
a few numbers are drawn by OpenDP, which many have reviewed, and tables by our own, proved in
`pufferkit.noise.exact_laplace`. The choice depends on public numbers only.
"""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Literal, get_args

from pufferkit.noise.exact_laplace import LARGEST_SCALE

Sampler = Literal["opendp", "pufferkit"]
"""The sampler of Laplace noise; releases record it."""

SAMPLER_NAMES: dict[Sampler, str] = {
    "opendp": "OpenDP",
    "pufferkit": "pufferkit's own exact sampler",
}
"""The samplers in words."""

CHOICE = "PUFFERKIT_SAMPLER"
"""The environment variable that names a sampler for all noise that both can draw."""

BATCH = 32
"""A release of this many numbers is drawn at once."""


def sampler_of(scale: Fraction, numbers: int = BATCH) -> Sampler:
    """The sampler of a release of this many numbers, or of a table of releases.

    Parameters
    ----------
    scale
        The largest scale, in units of the answer or steps of the grid. Beyond 2^56, OpenDP's
        integers of any size are needed.
    numbers
        How many numbers one release has; for a table it does not matter.
    """
    named = os.environ.get(CHOICE) or ("pufferkit" if numbers >= BATCH else "opendp")
    if named not in get_args(Sampler):
        raise ValueError(
            f"{CHOICE}: must be one of {', '.join(get_args(Sampler))}, got {named!r}; nothing was "
            "drawn"
        )
    return "pufferkit" if named == "pufferkit" and scale <= LARGEST_SCALE else "opendp"
