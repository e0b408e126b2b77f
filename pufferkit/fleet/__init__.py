"""Many subjects at once: one release for each, or one over all.

Subjects are independent of one another, and so are the segments of one subject ([Q] 5.3.1). So the
noise that hides an entry depends only on its own segment, and subjects whose longest segments have
the same length share one calibration.
"""

from pufferkit.fleet.releases import Releases

__all__ = ["Releases"]
